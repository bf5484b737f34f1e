"""The library never prints, logs, exits, reads the environment, a clock or randomness of the system: the caller owns all of these.

One file gives entropy and one a clock to a caller who wants what the system has; no other file may.
"""

import re

import cpp_text
from lint import Violation

NAME = "library_bans"
BANNED_HEADERS = {"<iostream>", "<cstdio>", "<stdio.h>", "<fstream>", "<regex>", "<random>", "<ctime>", "<time.h>", "<print>"}
ALLOWED_HEADERS = {"include/kvpage/cache/file_tier_store.hpp": {"<cstdio>"}}  # std::FILE: a store of pages in a file is its purpose
CLOCKS = r"(\b\w*[cC]lock|::)\s*::\s*now\s*\("
ENTROPY = r"\b(s?rand|rand_r|random|getentropy|getrandom|arc4random\w*)\s*\(|\brandom_device\b"
ALLOWED_CODE = {"include/kvpage/base/entropy.hpp": ENTROPY, "include/kvpage/sched/system_env.hpp": CLOCKS}
BANNED_CODE = [
    (r"\bstd\s*::\s*(cout|cerr|clog|cin)\b", "printing belongs to the caller"),
    (r"\b\w*printf\s*\(|\b(f?puts|putchar)\s*\(", "printing belongs to the caller"),
    (r"\bgetenv\s*\(", "configuration is passed, not read from the environment"),
    (CLOCKS, "clocks are injected"),
    (ENTROPY, "randomness is injected"),
    (r"\b(_?[Ee]xit|quick_exit)\s*\(", "the library never ends the program"),
]


def check(tree):
    paths = tree.sources(("include",))
    if not paths:
        yield Violation("include", 1, "no header found: nothing to check")
    for path in paths:
        text = tree.text(path)
        for line, include in cpp_text.includes(text):
            if include in BANNED_HEADERS - ALLOWED_HEADERS.get(path, set()):
                yield Violation(path, line, f"{include} is banned in the library")
        for number, line in enumerate(cpp_text.code_only(text).splitlines(), start=1):
            for pattern, reason in BANNED_CODE:
                if pattern != ALLOWED_CODE.get(path) and re.search(pattern, line):
                    yield Violation(path, number, f"'{line.strip()}': {reason}")


_LINES = ["std::cerr << 1;", 'std::snprintf(b, n, "x");', 'auto v = std::getenv("X");', "auto t = std::chrono::steady_clock::now();",
          "auto t = Clock::now();", "int r = rand();", "std::random_device d;", "std::exit(1);", "std::_Exit(1);"]

FIXTURES = [
    ("clean", {"include/kvpage/a.hpp": '// printf("x")\nauto s = "exit(1)"; int grand(int); on_exit_hook(); x.now(); fingerprintf;\n'}, []),
    ("headers", {"include/kvpage/a.hpp": "#include <vector>\n#include <iostream>\n#  include <regex>\n"},
     ["include/kvpage/a.hpp:2: <iostream>", "include/kvpage/a.hpp:3: <regex>"]),
    ("file store", {"include/kvpage/cache/file_tier_store.hpp": '#include <cstdio>\nvoid f() { std::puts("x"); }\n',
                    "include/kvpage/b.hpp": "#include <cstdio>\n"},
     ["include/kvpage/b.hpp:1: <cstdio>", "include/kvpage/cache/file_tier_store.hpp:2: '"]),
    ("entropy elsewhere", {"include/kvpage/a.hpp": "::getentropy(&w, 8);\ngetrandom(&w, 8, 0);"},
     ["include/kvpage/a.hpp:1: '", "include/kvpage/a.hpp:2: '"]),
    ("the system's clock and entropy", {path: "steady_clock::now();\ngetentropy(&w, 8);\nexit(1);\n" for path in ALLOWED_CODE},
     ["include/kvpage/base/entropy.hpp:1: '", "include/kvpage/base/entropy.hpp:3: '",
      "include/kvpage/sched/system_env.hpp:2: '", "include/kvpage/sched/system_env.hpp:3: '"]),
    ("code", {"include/kvpage/a.hpp": "\n".join(_LINES)}, [f"include/kvpage/a.hpp:{i}: '" for i in range(1, len(_LINES) + 1)]),
    ("nothing there", {"src/a.hpp": ""}, ["include:1: no header found"]),
]
