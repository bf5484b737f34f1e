"""Every path, link and test that README, CONTRIBUTING, ARCHITECTURE and docs name exists."""

import fnmatch
import posixpath
import re

from lint import Violation

NAME = "document_paths"
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")
TOP_FOLDERS = "include|examples|tests|bench|tools|cmake"
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
# `include/kvpage/x.hpp`, `tests/<area>/` is a pattern, `include/kvpage/x.hpp:function` is a hop.
QUOTED = re.compile(rf"`((?:{TOP_FOLDERS})/[\w./-]*)(?::[\w:~]+)?`")
# `area.thing.what_holds`, `area.thing.*`: a test, or the name of a figure that a bench prints.
DOTTED = re.compile(r"`([a-z]\w*(?:\.[\w*]+)+)`")
TEST_CASE = re.compile(r'TEST_CASE\("([^"]+)"')
ADDED_TEST = re.compile(r"add_test\(NAME ([\w.${}]+)")


def check(tree):
    present = [path for path in DOCUMENTS if tree.exists(path)]
    if not present:
        yield Violation(DOCUMENTS[0], 1, "no document found: nothing to check")
    tests = test_names(tree)
    areas = {name.partition(".")[0] for name in tests}
    figures = figure_words(tree)
    for path in present + tree.files(("docs",), {".md"}):
        for number, line in enumerate(tree.text(path).splitlines(), start=1):
            links = [posixpath.normpath(posixpath.join(posixpath.dirname(path), link)) for link in LINK.findall(line)]
            for named in links + QUOTED.findall(line):
                if not (tree.root / named).exists():
                    yield Violation(path, number, f"there is no {named}")
            for named in DOTTED.findall(line):
                if named.partition(".")[0] in areas and not is_figure(named, figures) and not is_test(named, tests):
                    yield Violation(path, number, f"there is no test {named}")


def is_test(named, tests):
    """A name or a pattern on either side."""
    return any(fnmatch.fnmatch(name, named) or fnmatch.fnmatch(named, name) for name in tests)


def figure_words(tree):
    """Words of the texts that benches write, by the group that they belong to: `sched.NAME` is a figure of tools/bench/sched.py."""
    texts = [tree.text(path) for path in tree.files(("bench", "tools"), {".cpp", ".py"})]
    words = {word for text in texts for quoted in re.findall(r'"[^"\n]*"', text) for word in re.findall(r"\w+", quoted)}
    return {path.rpartition("/")[2].removesuffix(".py"): words for path in tree.files(("tools/bench",), {".py"})}


def is_figure(named, figures):
    """Benches write the last word of a figure whole, or put one word behind it."""
    words, word = figures.get(named.partition(".")[0], ()), named.rpartition(".")[2]
    return word in words or ("_" in word and word.rpartition("_")[0] in words)


def test_names(tree):
    """Of C++ tests, and of those that CMake adds; a variable in such a name stands for anything."""
    sources = [name for path in tree.files(("tests",), {".cpp"}) for name in TEST_CASE.findall(tree.text(path))]
    lists = [name for path in tree.files(("tests",), {".txt"}) for name in ADDED_TEST.findall(tree.text(path))]
    return sources + [re.sub(r"\$\{\w+\}", "*", name) for name in lists]


FIXTURES = [
    ("all there", {
        "README.md": "[a](tools/a.sh) [b](#top) [c](https://x.y/z) `include/kvpage/a.hpp:f` `tests/<area>/x`\n",
        "tools/a.sh": "", "include/kvpage/a.hpp": "",
    }, []),
    ("gone", {"CONTRIBUTING.md": "\nsee [a](tools/b.sh)\n`include/kvpage/c.hpp:f` and `tests/d/`\n"},
     ["CONTRIBUTING.md:2: there is no tools/b.sh", "CONTRIBUTING.md:3: there is no include/kvpage/c.hpp",
      "CONTRIBUTING.md:3: there is no tests/d/"]),
    ("documents below", {
        "README.md": "", "docs/a.md": "[b](b.md) [c](../tools/c.sh)\n", "docs/b.md": "",
    }, ["docs/a.md:1: there is no tools/c.sh"]),
    ("tests", {
        "README.md": "`op.thing.holds` `op.thing.*` `op.added.x` `op.rate_12`\n`op.thing.gone` `op.other.*` `file.hpp`\n",
        "tests/op/a_test.cpp": 'TEST_CASE("op.thing.holds", "[op]") {}\n',
        "tests/op/CMakeLists.txt": "add_test(NAME op.added.${x} COMMAND a)\n",
        "bench/a.cpp": 'print("rate_12"); print("gone");\n', "tools/bench/op.py": "",
        "docs/c.md": "`op.gone` `other.gone`\n", "tests/other/b_test.cpp": 'TEST_CASE("other.x", "[x]") {}\n',
    }, ["README.md:2: there is no test op.other.*", "docs/c.md:1: there is no test other.gone"]),
    ("nothing there", {"tools/a.sh": ""}, ["README.md:1: no document found"]),
]
