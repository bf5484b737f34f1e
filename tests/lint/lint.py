"""The frame of every lint: run it over a tree, or over its own fixture trees, which it must reject line by line.

A lint is a module with
  NAME         as in "lint.<name>"
  check(tree)  yields Violation
  FIXTURES     [(case, {path: text}, [expected "path:line: start of message"])]; one case expects nothing
"""

import argparse
import importlib
import pathlib
import sys
import tempfile
from typing import NamedTuple

SOURCE_SUFFIXES = {".hpp", ".cuh", ".cpp", ".cu"}
SOURCE_FOLDERS = ("include", "examples", "tests", "bench")


class Violation(NamedTuple):
    path: str
    line: int
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.message}"


class Tree:
    """A checkout, read once."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self._texts = {}

    def files(self, folders, suffixes):
        """Sorted relative paths below `folders` with one of `suffixes`; tests/data is data, not source."""
        found = []
        for folder in folders:
            for path in (self.root / folder).rglob("*"):
                relative = path.relative_to(self.root).as_posix()
                wanted = path.suffix in suffixes and "__pycache__" not in path.parts
                if wanted and path.is_file() and not relative.startswith("tests/data/"):
                    found.append(relative)
        return sorted(found)

    def sources(self, folders=SOURCE_FOLDERS):
        return self.files(folders, SOURCE_SUFFIXES)

    def text(self, path):
        if path not in self._texts:
            self._texts[path] = (self.root / path).read_text(encoding="utf-8")
        return self._texts[path]

    def exists(self, path):
        return (self.root / path).is_file()


def run(lint, root):
    violations = sorted(lint.check(Tree(root)))
    for violation in violations:
        print(violation)
    print(f"lint.{lint.NAME}: {len(violations)} violations")
    return 1 if violations else 0


def self_test(lint):
    """Every fixture tree gives exactly its expected violations."""
    failures = 0
    for case, files, expected in lint.FIXTURES:
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                target = pathlib.Path(root, path)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
            found = [str(violation) for violation in sorted(lint.check(Tree(root)))]
        matches = len(found) == len(expected) and all(f.startswith(e) for f, e in zip(found, sorted(expected)))
        print(f"{'ok' if matches else 'WRONG'}: {case}: {len(found)} violations")
        if not matches:
            failures += 1
            print("  expected:", *sorted(expected), sep="\n    ")
            print("  found:", *found, sep="\n    ")
    if not any(expected for _, _, expected in lint.FIXTURES) or all(expected for _, _, expected in lint.FIXTURES):
        sys.exit(f"lint.{lint.NAME}: needs a fixture to reject and one to accept")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lint", help="module name, e.g. size_budgets")
    parser.add_argument("--root", help="tree to check")
    parser.add_argument("--self-test", action="store_true", help="check the lint's own fixtures instead")
    options = parser.parse_args()
    lint = importlib.import_module(options.lint)
    sys.exit(self_test(lint) if options.self_test else run(lint, options.root))


if __name__ == "__main__":
    main()
