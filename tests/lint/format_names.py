"""The name of a precision or weight format stands in its own file and in the list of all formats, nowhere else.

So adding one is a new file plus one line in a list: no enum, no switch, no parallel table.
"""

import re

import cpp_text
from lint import Violation

NAME = "format_names"
FORMAT_FOLDERS = ("include/kvpage/precision", "include/kvpage/quant")
LISTS = {
    "include/kvpage/precision/precisions.hpp",
    "include/kvpage/quant/weight_formats.hpp",
    "include/kvpage/cache/kv_formats.hpp",
}


def declared_names(tree):
    """The names of all formats: kName of each file in the format folders."""
    names = set()
    for path in tree.sources(FORMAT_FOLDERS):
        names.update(name.lower() for name in re.findall(r'\bkName\s*(?:=|\{)\s*"([^"]+)"', cpp_text.without_comments(tree.text(path))))
    return names


def check(tree):
    names = declared_names(tree)
    if not names:
        yield Violation(FORMAT_FOLDERS[0], 1, "no format declares a kName: nothing to check")
        return
    word = re.compile(r"(?<![A-Za-z0-9_])(" + "|".join(sorted(names)) + r")(?![A-Za-z0-9_])", re.IGNORECASE)
    for path in tree.sources(("include", "examples")):
        if path in LISTS:
            continue
        own = stem(path) if path.startswith(FORMAT_FOLDERS) else None
        for number, line in enumerate(cpp_text.without_comments(tree.text(path)).splitlines(), start=1):
            for found in word.findall(line):
                if found.lower() != own:
                    yield Violation(path, number, f"'{found}' belongs in its own file; read the list of formats instead")


def stem(path):
    return path.split("/")[-1].split(".")[0]


_F16 = 'struct F16 { static constexpr std::string_view kName = "f16"; };\n'
_Q4 = 'struct Q4_0 { static constexpr std::string_view kName = "q4_0"; };\n'

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
    ("a name in a file of another name", {"include/kvpage/quant/blocks.hpp": _Q4},
     ["include/kvpage/quant/blocks.hpp:1: 'Q4_0'", "include/kvpage/quant/blocks.hpp:1: 'q4_0'"]),
    ("no format found", {"include/kvpage/precision/a.hpp": "int x;\n"}, ["include/kvpage/precision:1: no format declares"]),
]
