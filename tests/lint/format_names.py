"""The name of a precision, weight or KV format stands in its own file and in the list of all formats, nowhere else.

So adding one is a new file plus one line in a list: no enum, no switch, no parallel table. A name is what users type (kName) and the
type that has it, in any case and with any separator: Fp8E4M3 is fp8_e4m3. In a string it counts between other words too ("kv_f16").
"""

import re

import cpp_text
from lint import Violation

NAME = "format_names"
FORMAT_FOLDERS = ("include/kvpage/precision", "include/kvpage/quant")
KV_LIST = "include/kvpage/kv/kv_formats.hpp"  # declares formats too
LISTS = {
    "include/kvpage/precision/precisions.hpp",
    "include/kvpage/quant/weight_formats.hpp",
    KV_LIST,
}
DECLARATION = re.compile(r'\bkName\s*(?:=|\{)\s*"([^"]+)"')
TYPE = re.compile(r"\b(?:struct|class)\s+(?:\[\[.*?\]\]\s*)?(\w+)")


def plain(name):
    """A name without case and separators."""
    return re.sub(r"[_-]", "", name).lower()


def declared_names(tree):
    """{spelling: kName} of all formats, in plain letters: each kName, and the type around it."""
    names = {}
    for path in tree.sources(FORMAT_FOLDERS) + [path for path in (KV_LIST,) if tree.exists(path)]:
        text = cpp_text.without_comments(tree.text(path))
        for found in DECLARATION.finditer(text):
            names[plain(found[1])] = plain(found[1])
            for owner in TYPE.findall(text[: found.start()])[-1:]:
                names[plain(owner)] = plain(found[1])
    return names


def pattern(names, before, after):
    """Any of the names, with or without separators between its letters and digits."""
    spellings = ("[_-]?".join(re.escape(char) for char in name) for name in sorted(names, key=lambda name: (-len(name), name)))
    return re.compile(f"(?<!{before})({'|'.join(spellings)})(?!{after})", re.IGNORECASE)


def check(tree):
    names = declared_names(tree)
    if not names:
        yield Violation(FORMAT_FOLDERS[0], 1, "no format declares a kName: nothing to check")
        return
    word = pattern(names, "[A-Za-z0-9_]", "[A-Za-z0-9_]")
    quoted = pattern(names, "[A-Za-z0-9]", "[A-Za-z0-9]")
    for path in tree.sources(("include", "examples")):
        if path in LISTS:
            continue
        own = plain(stem(path)) if path.startswith(FORMAT_FOLDERS) else None
        text = cpp_text.without_comments(tree.text(path))
        places = {(found.start(), found[1]) for found in word.finditer(text)}
        for start, string in cpp_text.strings(text):
            places |= {(start + found.start(), found[1]) for found in quoted.finditer(string)}
        for start, found in sorted(places):
            if names[plain(found)] != own:
                yield Violation(path, text[:start].count("\n") + 1, f"'{found}' belongs in its own file; read the list of formats instead")


def stem(path):
    return path.split("/")[-1].split(".")[0]


_F16 = 'struct F16 { static constexpr std::string_view kName = "f16"; };\n'
_Q4 = 'struct Q4_0 { static constexpr std::string_view kName = "q4_0"; };\n'
_FP8 = 'struct Fp8E4M3 : Minifloat<Fp8E4M3> { static constexpr std::string_view kName = "fp8_e4m3"; };\n'
_SMALL8 = 'struct Small8KV { static constexpr std::string_view kName = "small8"; };\n'

FIXTURES = [
    ("names at home", {
        "include/kvpage/precision/f16.hpp": _F16,
        "include/kvpage/precision/precisions.hpp": "#include <kvpage/precision/f16.hpp>\nusing P = TypeList<F16>;\n",
        "include/kvpage/quant/q4_0.hpp": _Q4,
        "examples/engine/e.cpp": "// f16 and q4_0 in a comment\nint f16_count; std::int8_t xf16;\n",
        "tests/a_test.cpp": "F16 x;\n",
    }, []),
    ("names elsewhere", {
        "include/kvpage/precision/f16.hpp": _F16,
        "include/kvpage/quant/q4_0.hpp": _Q4 + "using Scale = F16;\n",
        "include/kvpage/kernels/x/cpu.hpp": "\nif constexpr (std::same_as<T, F16>) {}\n",
        "examples/engine/e.cpp": '#include <kvpage/precision/f16.hpp>\nif (type == "Q4_0") {}\n',
    }, ["include/kvpage/quant/q4_0.hpp:2: 'F16'", "include/kvpage/kernels/x/cpu.hpp:2: 'F16'", "examples/engine/e.cpp:1: 'f16'",
        "examples/engine/e.cpp:2: 'Q4_0'"]),
    ("types and spellings elsewhere", {
        "include/kvpage/precision/fp8_e4m3.hpp": _FP8 + "using Wide = Fp8E4M3;\n",
        "include/kvpage/kv/kv_formats.hpp": _SMALL8 + "using K = Fp8E4M3;\n",
        "include/kvpage/kernels/x/cpu.hpp": "// Fp8E4M3\nif constexpr (std::same_as<T, Fp8E4M3>) {}\nfp8e4m3 x;\nSmall8KV y;\n",
        "examples/engine/e.cpp": 'f("kv_fp8_e4m3"), g("fp8-e4m3 is small"),\nh(R"(a "small8"\nsmall8)", \'"\'), i("unfp8_e4m3");\n'
                                 "int fp8_e4m3_count;\n",
    }, ["include/kvpage/kernels/x/cpu.hpp:2: 'Fp8E4M3'", "include/kvpage/kernels/x/cpu.hpp:3: 'fp8e4m3'",
        "include/kvpage/kernels/x/cpu.hpp:4: 'Small8KV'", "examples/engine/e.cpp:1: 'fp8-e4m3'", "examples/engine/e.cpp:1: 'fp8_e4m3'",
        "examples/engine/e.cpp:2: 'small8'", "examples/engine/e.cpp:3: 'small8'"]),
    ("a name in a file of another name", {"include/kvpage/quant/blocks.hpp": _Q4},
     ["include/kvpage/quant/blocks.hpp:1: 'Q4_0'", "include/kvpage/quant/blocks.hpp:1: 'q4_0'"]),
    ("no format found", {"include/kvpage/precision/a.hpp": "int x;\n"}, ["include/kvpage/precision:1: no format declares"]),
]
