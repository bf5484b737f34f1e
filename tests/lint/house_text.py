"""Nothing unfinished and nothing private is committed; every header says in its first line what it is for."""

import re

from lint import Violation

NAME = "house_text"
FOLDERS = ("include", "examples", "tests", "bench", "tools", "cmake", "docs", ".ci")
SUFFIXES = {".hpp", ".cuh", ".cpp", ".cu", ".py", ".sh", ".cmake", ".md", ".txt", ".in", ".json", ".lock", ".yml", ""}
TOP_FILES = ("CMakeLists.txt", "CMakePresets.json", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "NOTICE")
# Written so that no pattern matches its own source line.
BANNED_TEXT = [
    (r"\b(TO[D]O|FI[X]ME|XX[X])\b", "finish it or file it"),
    (r"/wor[k]/|/roo[t]/|/hom[e]/|(?<![\w/])share[d]/(design|golden|peers|spikes|bugs|DESIGN)", "a path of one machine or workplace"),
]
HEADER_COMMENT = re.compile(r"/// \\file \S.*\n(?:///.*\n)*")
GUARD = re.compile(r"\s*#pragma once\n")
NO_GUARD = "No include guard: "  # followed by the reason, for files that are included once per use


def check(tree):
    paths = tree.files(FOLDERS, SUFFIXES) + [path for path in TOP_FILES if tree.exists(path)]
    if not paths:
        yield Violation(".", 1, "no file found: nothing to check")
    for path in paths:
        text = tree.text(path)
        for number, line in enumerate(text.splitlines(), start=1):
            for pattern, reason in BANNED_TEXT:
                for found in re.finditer(pattern, line):
                    yield Violation(path, number, f"'{found[0]}': {reason}")
        if path.endswith((".hpp", ".cuh")):
            comment = HEADER_COMMENT.match(text)
            if not comment or not (GUARD.match(text, comment.end()) or NO_GUARD in comment[0]):
                yield Violation(path, 1, "a header starts with '/// \\file <one sentence>' and '#pragma once'")


_START = "/// \\file What it is.\n#pragma once\n"

FIXTURES = [
    ("clean", {"include/kvpage/a.hpp": _START, "README.md": "see tests/data/golden and a shared/prefix, network/x\n"}, []),
    ("unfinished", {"tools/a.sh": "\n# TO" + "DO later\n", "include/kvpage/a.hpp": _START + "int x; // FIX" + "ME\n"},
     ["tools/a.sh:2: 'TO", "include/kvpage/a.hpp:3: 'FI"]),
    ("private", {"README.md": "see /wor" + "k/x\n", "tests/a.py": "\n\n'shar" + "ed/golden'\n"},
     ["README.md:1: '/wor", "tests/a.py:3: 'share"]),
    ("header start", {
        "bench/a.hpp": "#pragma once\n",
        "bench/b.hpp": "/// \\file Twice\n/// long.\n\n#pragma once\n",
        "bench/c.hpp": "/// \\file Once per use. No include guard: every use includes it again.\n",
        "bench/d.hpp": "/// \\file No reason.\n#ifdef X\n",
    }, ["bench/a.hpp:1: a header starts", "bench/d.hpp:1: a header starts"]),
    ("nothing there", {"other/a.hpp": ""}, [".:1: no file found"]),
]
