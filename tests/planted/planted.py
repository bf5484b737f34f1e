#!/usr/bin/env python3
"""Plants faults in a copy of the headers and requires that the named tests find them.

A fault is one file tests/support/planted/NAME.patch: lines "Fault:" (what is wrong), "Test:" (a source file of tests/, then the
name of a TEST_CASE or a pattern with *), both once, then a unified diff against the repository root. The named test must pass on
the clean headers and fail on the faulty ones. A patch that no longer applies or compiles is a failure of this check.

  planted.py run NAME...      these faults
  planted.py rotate N         N faults, others each day
  planted.py matrix           all faults, against every test file that some fault names; prints which test file finds which fault
"""

import argparse
import dataclasses
import datetime
import fnmatch
import functools
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATCHES = ROOT / "tests/support/planted"
RUN_LIMIT_S = 120


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    what: str
    source: str
    test: str
    diff: str


class BrokenCheck(Exception):
    """The check itself cannot be made: no fault was looked for."""


def read_fault(path):
    text = path.read_text(encoding="utf-8")
    head = text.partition("\n--- ")[0]
    fields = dict(re.findall(r"^(Fault|Test): (.+)$", head, re.MULTILINE))
    if set(fields) != {"Fault", "Test"} or " " not in fields["Test"]:
        raise BrokenCheck(f"{path.name}: needs the lines 'Fault: WHAT' and 'Test: SOURCE NAME' before the diff")
    source, test = fields["Test"].split(" ", 1)
    if not (ROOT / "tests" / source).is_file():
        raise BrokenCheck(f"{path.name}: there is no tests/{source}")
    return Fault(path.stem, fields["Fault"], source, test, text)


def read_faults(folder):
    return [read_fault(path) for path in sorted(folder.glob("*.patch"))]


class Workshop:
    """Copies headers, plants, builds and runs, in one folder."""

    def __init__(self, folder, compiler, catch_main):
        self.folder, self.compiler, self.catch_main = folder, compiler, catch_main

    def headers(self, fault):
        """A copy of include/ with the fault in it (None: clean)."""
        copy = self.folder / (fault.name if fault else "clean")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(ROOT / "include", copy / "include")
        if fault:
            done = subprocess.run(["patch", "-p1", "--fuzz=0", "--batch", "--forward", "-d", copy], input=fault.diff, text=True,
                                  capture_output=True, check=False)
            if done.returncode != 0:
                raise BrokenCheck(f"{fault.name}: the patch does not apply any more\n{done.stdout}{done.stderr}")
        return copy

    def build(self, copy, source):
        program = copy / (source.replace("/", ".") + ".bin")
        command = [*self.compiler, "-std=c++20", "-O1", "-ffp-contract=off", "-DKVPAGE_ASSERT_LEVEL=2",
                   f'-DKVPAGE_TEST_DATA_DIR="{ROOT}/tests/data"', f"-I{copy}/include", f"-I{ROOT}/examples", f"-I{ROOT}/tests",
                   str(ROOT / "tests" / source), str(self.catch_main), "-pthread", "-o", str(program)]
        done = subprocess.run(command, text=True, capture_output=True, check=False)
        if done.returncode != 0:
            raise BrokenCheck(f"{copy.name}: {source} does not compile\n{done.stderr[-3000:]}")
        return program

    def fails(self, program, test):
        """Whether the test case finds something: a failed check, a crash, or no end."""
        try:
            done = subprocess.run([program, test.replace(",", r"\,"), "-w", "NoTests"], text=True, capture_output=True, check=False,
                                  timeout=RUN_LIMIT_S)
        except subprocess.TimeoutExpired:
            return True
        if "No test cases matched" in done.stdout + done.stderr:
            raise BrokenCheck(f"{program.name}: no test case is named {test}")
        return done.returncode != 0

    @functools.cached_property
    def clean_copy(self):
        return self.headers(None)

    @functools.cache  # pylint: disable=method-cache-max-size-none
    def clean_program(self, source):
        return self.build(self.clean_copy, source)

    @functools.cache  # pylint: disable=method-cache-max-size-none
    def require_clean_pass(self, source, test):
        if self.fails(self.clean_program(source), test):
            raise BrokenCheck(f"{test} of {source} fails on the clean headers")


def check(workshop, fault):
    """True when the named test finds the fault."""
    started = time.monotonic()
    workshop.require_clean_pass(fault.source, fault.test)
    found = workshop.fails(workshop.build(workshop.headers(fault), fault.source), fault.test)
    seconds = time.monotonic() - started
    print(f"{'found' if found else 'NOT FOUND':9} {fault.name}: {fault.what} [{fault.test}, {seconds:.0f} s]", flush=True)
    shutil.rmtree(workshop.folder / fault.name)
    return found


def chosen(faults, names):
    picked = [fault for fault in faults if any(fnmatch.fnmatch(fault.name, name) for name in names)]
    if not picked:
        raise BrokenCheck(f"no fault is named {' '.join(names)}")
    return picked


def rotated(faults, count):
    """`count` faults; all have had their turn after ceil(faults / count) days."""
    first = datetime.date.today().toordinal() * count % len(faults)
    return [faults[(first + i) % len(faults)] for i in range(min(count, len(faults)))]


def matrix(workshop, faults):
    """Prints a line per fault and a column per test file; returns the faults that their own test misses."""
    sources = sorted({fault.source for fault in faults})
    missed = []
    print("   ".join(["fault".ljust(40), *sources]))
    for fault in faults:
        copy = workshop.headers(fault)
        cells = []
        for source in sources:
            found = workshop.fails(workshop.build(copy, source), fault.test if source == fault.source else "*")
            if source == fault.source and not found:
                missed.append(fault)
            cells.append(("found" if found else "-").ljust(len(source)))
        print("   ".join([fault.name.ljust(40), *cells]), flush=True)
        shutil.rmtree(copy)
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "rotate", "matrix"])
    parser.add_argument("values", nargs="*", help="names (run, patterns allowed) or a count (rotate)")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder for copies and programs")
    parser.add_argument("--compiler", required=True, help="C++ compiler, with a launcher before it if wanted, separated by ;")
    parser.add_argument("--catch-main", type=pathlib.Path, required=True, help="object file with Catch2's main")
    parser.add_argument("--patches", type=pathlib.Path, default=PATCHES, help="folder of the faults")
    options = parser.parse_args()
    workshop = Workshop(options.work, [word for word in options.compiler.split(";") if word], options.catch_main)
    try:
        faults = read_faults(options.patches)
        if options.command == "matrix":
            missed = matrix(workshop, faults)
        else:
            picked = chosen(faults, options.values) if options.command == "run" else rotated(faults, int(options.values[0]))
            missed = [fault for fault in picked if not check(workshop, fault)]
    except BrokenCheck as error:
        sys.exit(f"planted: {error}")
    if missed:
        sys.exit("planted: not found: " + ", ".join(fault.name for fault in missed))


if __name__ == "__main__":
    main()
