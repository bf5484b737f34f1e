"""Every test file is built: a *_test.cpp that no CMakeLists.txt beside it names would pass by never running."""

from lint import Violation

NAME = "test_sources"


def check(tree):
    for path in tree.sources(("tests",)):
        folder, _, name = path.rpartition("/")
        if not name.endswith("_test.cpp"):
            continue
        lists = f"{folder}/CMakeLists.txt"
        if not tree.exists(lists) or name not in tree.text(lists).replace("(", " ").replace(")", " ").split():
            yield Violation(path, 1, f"{lists} does not name it: it is never run")


FIXTURES = [
    ("named", {"tests/a/x_test.cpp": "", "tests/a/CMakeLists.txt": "kvpage_add_test(a SOURCES x_test.cpp)\n", "tests/a/help.cpp": ""}, []),
    ("forgotten", {
        "tests/a/x_test.cpp": "", "tests/a/y_test.cpp": "", "tests/b/z_test.cpp": "",
        "tests/a/CMakeLists.txt": "kvpage_add_test(a SOURCES y_test.cpp more_x_test.cpp)\n",
    }, ["tests/a/x_test.cpp:1: tests/a/CMakeLists.txt does not name it", "tests/b/z_test.cpp:1: tests/b/CMakeLists.txt does not name it"]),
]
