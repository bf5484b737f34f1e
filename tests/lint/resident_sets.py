"""No test or bench measures a resident set: it has pages of files, as many as the page cache holds in one piece. See own_memory.hpp."""

import re

from lint import SOURCE_SUFFIXES, Violation

NAME = "resident_sets"
FOLDERS = ("tests", "bench", "tools")
BANNED = re.compile(r"\bVm(HWM|RSS)\b|\bru_max[r]ss\b")


def check(tree):
    paths = tree.files(FOLDERS, SOURCE_SUFFIXES | {".py", ".sh"})
    if not paths:
        yield Violation("tests", 1, "no source found: nothing to check")
    for path in paths:
        for number, line in enumerate(tree.text(path).splitlines(), start=1):
            if found := BANNED.search(line):
                yield Violation(path, number, f"{found[0]} depends on the page cache: measure anonymous memory (own_memory_bytes)")


_LINES = ['if (word == "Vm' + 'RSS:") return 1;', "usage.ru_max" + "rss * 1024", 'if (word == "Vm' + 'HWM:") return 1;']

FIXTURES = [
    ("clean", {"tests/a/a_test.cpp": 'if (word == "RssAnon:") return own_memory_bytes();\n', "examples/a.cpp": "Vm" + "RSS\n"}, []),
    ("every way", {"tests/a/a_test.cpp": "\n".join(_LINES)}, [f"tests/a/a_test.cpp:{i}: " for i in range(1, len(_LINES) + 1)]),
    ("everywhere", {"bench/b.hpp": _LINES[0], "tests/a.py": _LINES[1], "tools/b.sh": _LINES[2]},
     ["bench/b.hpp:1: ", "tests/a.py:1: ", "tools/b.sh:1: "]),
    ("nothing there", {"src/a.hpp": ""}, ["tests:1: no source found"]),
]
