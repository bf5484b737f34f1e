"""Every path that README, CONTRIBUTING and ARCHITECTURE name exists."""

import re

from lint import Violation

NAME = "document_paths"
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")
TOP_FOLDERS = "include|examples|tests|bench|tools|cmake"
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
# `include/kvpage/x.hpp`, `tests/<area>/` is a pattern, `include/kvpage/x.hpp:function` is a hop.
QUOTED = re.compile(rf"`((?:{TOP_FOLDERS})/[\w./-]*)(?::[\w:~]+)?`")


def check(tree):
    present = [path for path in DOCUMENTS if tree.exists(path)]
    if not present:
        yield Violation(DOCUMENTS[0], 1, "no document found: nothing to check")
    for path in present:
        for number, line in enumerate(tree.text(path).splitlines(), start=1):
            for named in LINK.findall(line) + QUOTED.findall(line):
                if not (tree.root / named).exists():
                    yield Violation(path, number, f"there is no {named}")


FIXTURES = [
    ("all there", {
        "README.md": "[a](tools/a.sh) [b](#top) [c](https://x.y/z) `include/kvpage/a.hpp:f` `tests/<area>/x`\n",
        "tools/a.sh": "", "include/kvpage/a.hpp": "",
    }, []),
    ("gone", {"CONTRIBUTING.md": "\nsee [a](tools/b.sh)\n`include/kvpage/c.hpp:f` and `tests/d/`\n"},
     ["CONTRIBUTING.md:2: there is no tools/b.sh", "CONTRIBUTING.md:3: there is no include/kvpage/c.hpp",
      "CONTRIBUTING.md:3: there is no tests/d/"]),
    ("nothing there", {"tools/a.sh": ""}, ["README.md:1: no document found"]),
]
