"""Model families have names in one file only, the table of architectures; everything else reads the values of its rows."""

import re

import cpp_text
from lint import Violation

NAME = "architecture_names"
TABLE = "examples/engine/model/architectures.hpp"
WORD = re.compile(r"llama|qwen2|gemma3", re.IGNORECASE)


def check(tree):
    if not WORD.search(tree.text(TABLE) if tree.exists(TABLE) else ""):
        yield Violation(TABLE, 1, "the table of architectures is missing or names none: nothing to check")
    for path in tree.sources(("include", "examples")):
        if path == TABLE:
            continue
        for number, line in enumerate(cpp_text.without_comments(tree.text(path)).splitlines(), start=1):
            for found in WORD.findall(line):
                yield Violation(path, number, f"'{found}' belongs in {TABLE}; describe the difference by a value there")


_TABLE = {TABLE: 'row{"llama"};\n'}

FIXTURES = [
    ("names in the table, comments and tests", _TABLE | {
        "examples/engine/e.cpp": "/* as llama does */ int x; // gemma3\n",
        "tests/a.cpp": '"llama"\n',
    }, []),
    ("names elsewhere", _TABLE | {
        "examples/engine/e.cpp": '\nif (pre == "llama-bpe") {}\n',
        "include/kvpage/a.hpp": "struct Qwen2Block;\nstruct Gemma3Norm;\n",
    }, ["examples/engine/e.cpp:2: 'llama'", "include/kvpage/a.hpp:1: 'Qwen2'", "include/kvpage/a.hpp:2: 'Gemma3'"]),
    ("no table", {"examples/engine/e.cpp": "int x;\n"}, [f"{TABLE}:1: the table of architectures is missing"]),
]
