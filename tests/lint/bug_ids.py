"""Every public bug report of tests/data/bug_ids.txt has a test bug.Bnn.* or stands in tests/pending_ids.txt, never both."""

import re

import cpp_text
from lint import Violation

NAME = "bug_ids"
LIST = "tests/data/bug_ids.txt"  # one line each: Bnn | public report | the fault in one phrase
PENDING = "tests/pending_ids.txt"  # one id per line; # starts a comment
TEST_NAME = re.compile(r'\b(?:TEMPLATE_)?TEST_CASE\s*\(\s*"bug\.([^".]*)\.([^"]*)"')


def lines(tree, path):
    """[(line number, text)] without comments and blank lines."""
    if not tree.exists(path):
        return []
    texts = [line.split("#")[0] if path == PENDING else line for line in tree.text(path).splitlines()]
    return [(number, text.strip()) for number, text in enumerate(texts, start=1) if text.strip()]


def check(tree):
    known = {}
    for number, line in lines(tree, LIST):
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 3 or not re.fullmatch(r"B\d\d", fields[0]) or not all(fields):
            yield Violation(LIST, number, f"'{line}' is not 'Bnn | public report | phrase'")
        elif fields[0] in known:
            yield Violation(LIST, number, f"{fields[0]} occurs twice")
        known[fields[0]] = number
    pending = {}
    for number, line in lines(tree, PENDING):
        if line not in known or line in pending:
            yield Violation(PENDING, number, f"'{line}' is not an id of {LIST}, or occurs twice")
        pending[line] = number
    tested = {}
    for path in tree.sources(("tests",)):
        text = cpp_text.without_comments(tree.text(path))
        for match in TEST_NAME.finditer(text):
            tested[match[1]] = path
            if match[1] not in known:
                yield Violation(path, text[: match.start()].count("\n") + 1, f"bug.{match[1]} has no entry in {LIST}")
    if not known:
        yield Violation(LIST, 1, "lists no bug: nothing to check")
    for bug, number in known.items():
        if bug in tested and bug in pending:
            yield Violation(PENDING, pending[bug], f"{bug} has a test in {tested[bug]}: remove it here")
        if bug not in tested and bug not in pending:
            yield Violation(LIST, number, f"{bug} has no test bug.{bug}.* and is not pending")


_LIST = {LIST: "B01 | o/r#1 | freed twice\nB02 | o/r#2 | wrong # hit\n"}


def _test(name):
    return {"tests/a/a_test.cpp": f'// TEST_CASE("bug.B77.x", "[a]")\nTEST_CASE("{name}", "[a]") {{\n}}\n'}


FIXTURES = [
    ("one tested, one pending", _LIST | _test("bug.B01.free_twice") | {PENDING: "# cache\nB02  # later\n"}, []),
    ("both", _LIST | _test("bug.B01.free_twice") | {PENDING: "B01\nB02\n"}, [f"{PENDING}:1: B01 has a test in tests/a/a_test.cpp"]),
    ("neither", _LIST | _test("bug.B01.free_twice"), [f"{LIST}:2: B02 has no test"]),
    ("unknown test", _LIST | _test("bug.B03.x") | {PENDING: "B01\nB02\n"}, ["tests/a/a_test.cpp:2: bug.B03 has no entry"]),
    ("unknown pending", _LIST | {PENDING: "B01\nB02\nB09\nB01\n"}, [f"{PENDING}:3: 'B09'", f"{PENDING}:4: 'B01'"]),
    ("malformed list", {LIST: "B1 | x | y\nB02 | x\n"}, [f"{LIST}:1: 'B1 | x | y' is not", f"{LIST}:1: B1 has no test",
                                                        f"{LIST}:2: 'B02 | x' is not", f"{LIST}:2: B02 has no test"]),
    ("empty", {LIST: "\n"}, [f"{LIST}:1: lists no bug"]),
]
