#!/usr/bin/env python3
"""Plants faults in a copy of the sources and requires that the named tests find them.

A fault is one file tests/support/planted/NAME.patch: lines "Fault:" (what is wrong), "Test:" (a source file of tests/, then the
name of a TEST_CASE or a pattern with *), both once, then a unified diff against the repository root. The named test must pass on
the clean sources and fail on the faulty ones. A patch that no longer applies or compiles is a failure of this check. A test file is
built from its own source and from the source beside each header of tests/ that it includes, and linked with the engine's library.
A fault in examples/ names in a line "Sources:" the files of examples/ that must be built with it; they take the place of the library's.

  planted.py run NAME...      these faults
  planted.py rotate N         N faults, others for each commit
  planted.py apply            all faults: only whether their patches still apply
  planted.py matrix [NAME...] these faults or all, each against every test file of its folder that they name; prints which finds which,
                              and for faults that seeds find, how many seeds it takes
"""

import argparse
import dataclasses
import fnmatch
import functools
import itertools
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATCHES = ROOT / "tests/support/planted"
RUN_LIMIT_S = 120
SKIPPED = 77
ALL_TESTS = "~[night]"  # of a test file; the long-running ones would be skipped
SEED = re.compile(r"^\s*(seed (\d+)\b.*)$", re.MULTILINE)  # what a test of many seeds says with a failed check
# The long-running variants of tests stay off, and the model test is short.
ENVIRONMENT = {**os.environ, "KVPAGE_NIGHT": "0", "KVPAGE_MODEL_OPS": "200000"}


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    what: str
    source: str
    test: str
    diff: str
    rebuilt: tuple = ()  # of examples/


class BrokenCheck(Exception):
    """The check itself cannot be made: no fault was looked for."""


def read_fault(path):
    text = path.read_text(encoding="utf-8")
    head = text.partition("\n--- ")[0]
    fields = dict(re.findall(r"^(Fault|Test|Sources): (.+)$", head, re.MULTILINE))
    rebuilt = tuple(fields.pop("Sources", "").split())
    if set(fields) != {"Fault", "Test"} or " " not in fields["Test"]:
        raise BrokenCheck(f"{path.name}: needs the lines 'Fault: WHAT' and 'Test: SOURCE NAME' before the diff")
    source, test = fields["Test"].split(" ", 1)
    if not (ROOT / "tests" / source).is_file():
        raise BrokenCheck(f"{path.name}: there is no tests/{source}")
    for file in rebuilt:
        if not (ROOT / "examples" / file).is_file():
            raise BrokenCheck(f"{path.name}: there is no examples/{file}")
    return Fault(path.stem, fields["Fault"], source, test, text, rebuilt)


def read_faults(folder):
    """All faults, those of one test file together: neighbours share the build of the clean test."""
    faults = [read_fault(path) for path in folder.glob("*.patch")]
    if not faults:
        raise BrokenCheck(f"{folder} holds no *.patch: there is no fault to plant")
    return sorted(faults, key=lambda fault: (fault.source, fault.name))


def parts_of(source):
    """The source files that a test file is built from."""
    included = re.findall(r'^#include "(.+)\.hpp"$', (ROOT / "tests" / source).read_text(encoding="utf-8"), re.MULTILINE)
    return [source] + [f"{name}.cpp" for name in included if (ROOT / "tests" / f"{name}.cpp").is_file()]


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Workshop:
    """Copies headers, plants, builds and runs, in one folder."""

    def __init__(self, folder, compiler, catch_main, library):
        self.folder, self.compiler, self.catch_main, self.library = folder, compiler, catch_main, library
        self.clean_seconds = {}

    def headers(self, fault):
        """A copy of include/, the engine and the simulator with the fault in it (None: clean)."""
        copy = self.folder / (fault.name if fault else "clean")
        shutil.rmtree(copy, ignore_errors=True)
        for sources in ("include", "examples/engine", "examples/tools/simulator"):
            shutil.copytree(ROOT / sources, copy / sources)
        if fault:
            self.apply(fault, copy)
        return copy

    def apply(self, fault, copy, *options):
        done = subprocess.run(["patch", "-p1", "--fuzz=0", "--batch", "--forward", *options, "-d", copy], input=fault.diff, text=True,
                              capture_output=True, check=False)
        if done.returncode != 0:
            raise BrokenCheck(f"{fault.name}: the patch does not apply any more\n{done.stdout}{done.stderr}")

    def build(self, copy, source, rebuilt=()):
        """The test program. It compiles with paths relative to the copy, so that a compiler cache knows what the fault does not touch."""
        flags = ["-std=c++20", "-O1", "-ffp-contract=off", "-DKVPAGE_ASSERT_LEVEL=2", f'-DKVPAGE_TEST_DATA_DIR="{ROOT}/tests/data"',
                 "-Iinclude", "-Iexamples", f"-I{ROOT}/examples", f"-I{ROOT}/tests"]
        parts = [str(ROOT / "tests" / part) for part in parts_of(source)] + [f"examples/{file}" for file in rebuilt]
        objects = [f"{number}.o" for number in range(len(parts))]
        for part, output in zip(parts, objects):
            self.compile(copy, source, [*flags, "-c", part, "-o", output])
        program = copy / (source.replace("/", ".") + ".bin")
        self.compile(copy, source, [*objects, str(self.catch_main), str(self.library), "-pthread", "-o", str(program)])
        return program

    def compile(self, copy, source, arguments):
        done = subprocess.run([*self.compiler, *arguments], cwd=copy, text=True, capture_output=True, check=False)
        if done.returncode != 0:
            raise BrokenCheck(f"{copy.name}: {source} does not compile\n{done.stderr[-3000:]}")

    def finding(self, program, test):
        """What the test case finds: the seed, or "a failure" (of a check, or a crash), or "no end" within many times what the clean headers
        take. None: nothing."""
        started = time.monotonic()
        try:
            done = subprocess.run([program, test.replace(",", r"\,"), "-w", "NoTests"], text=True, capture_output=True, check=False,
                                  timeout=RUN_LIMIT_S, env=ENVIRONMENT)
        except subprocess.TimeoutExpired as late:
            if self.clean_seconds.get(test, RUN_LIMIT_S) > RUN_LIMIT_S / 4:
                raise BrokenCheck(f"{program.name}: {test} is too slow to tell a fault from a busy machine") from late
            return "no end"
        if program.parent == self.folder / "clean":
            self.clean_seconds[test] = time.monotonic() - started
        if "No test cases matched" in done.stdout + done.stderr:
            raise BrokenCheck(f"{program.name}: no test case is named {test}")
        if done.returncode == SKIPPED:
            raise BrokenCheck(f"{program.name}: {test} was skipped, so it cannot find a fault")
        if done.returncode == 0:
            return None
        seeds = SEED.findall(done.stdout)
        return seeds[-1][0] if seeds else "a failure"

    @functools.cached_property
    def clean_copy(self):
        return self.headers(None)

    @functools.cache  # pylint: disable=method-cache-max-size-none
    def clean_program(self, source):
        return self.build(self.clean_copy, source)

    @functools.cache  # pylint: disable=method-cache-max-size-none
    def require_clean_pass(self, source, test):
        finding = self.finding(self.clean_program(source), test)
        if finding:
            raise BrokenCheck(f"{test} of {source} fails on the clean headers: {finding}")


def check(workshop, fault):
    """True when the named test finds the fault."""
    before = cpu_seconds()
    workshop.require_clean_pass(fault.source, fault.test)
    finding = workshop.finding(workshop.build(workshop.headers(fault), fault.source, fault.rebuilt), fault.test)
    word = "found" if finding else "NOT FOUND"
    print(f"{word:9} {fault.name}: {fault.what} [{fault.test}, {finding or 'nothing'}, {cpu_seconds() - before:.0f} CPU-s]", flush=True)
    shutil.rmtree(workshop.folder / fault.name)
    return finding is not None


def check_that_all_apply(workshop, faults):
    for fault in faults:
        workshop.apply(fault, workshop.clean_copy, "--dry-run")
    print(f"{len(faults)} patches apply")


def chosen(faults, names):
    picked = [fault for fault in faults if any(fnmatch.fnmatch(fault.name, name) for name in names)]
    if not picked:
        raise BrokenCheck(f"no fault is named {' '.join(names)}")
    return picked


def rotated(faults, count):
    """`count` neighbours, chosen by the commit: the same commit always gets the same ones, and over many commits all have their turn."""
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], text=True, capture_output=True, check=False)
    first = int(done.stdout.strip() or "0", 16) % len(faults)  # without git: the first ones
    return [faults[(first + i) % len(faults)] for i in range(min(count, len(faults)))]


def matrix(workshop, faults):
    """Prints a table for each folder of tests: a line per fault, a column per test file. Returns the faults that their own test misses."""
    findings = {}
    for folder, group in itertools.groupby(faults, key=lambda fault: fault.source.rpartition("/")[0]):
        group = list(group)
        sources = sorted({fault.source for fault in group})
        for source in sources:
            workshop.require_clean_pass(source, ALL_TESTS)
        print("   ".join([folder.ljust(40), *(source.rpartition("/")[2] for source in sources)]), flush=True)
        findings |= {fault: matrix_line(workshop, fault, sources) for fault in group}
    print_seeds(findings)
    return [fault for fault, finding in findings.items() if finding is None]


def matrix_line(workshop, fault, sources):
    """What the fault's own test finds. Of other test files all tests are tried."""
    copy = workshop.headers(fault)
    tests = {source: fault.test if source == fault.source else ALL_TESTS for source in sources}
    cells = {source: workshop.finding(workshop.build(copy, source, fault.rebuilt), test) for source, test in tests.items()}
    words = (("found" if cells[source] else "-").ljust(len(source.rpartition("/")[2])) for source in sources)
    print("   ".join([fault.name.ljust(40), *words]), flush=True)
    shutil.rmtree(copy)
    return cells[fault.source]


def print_seeds(findings):
    """Of the faults that their test finds by seeds: how many seeds it takes, and where in the last of them it is found."""
    by_seeds = ((fault.name, SEED.match(finding or "")) for fault, finding in findings.items())
    taken = sorted((int(match[2]) + 1, name, match[1]) for name, match in by_seeds if match)
    if not taken:
        return
    for count, name, where in taken:
        print(f"{name:40} {count:5} seeds to detection: {where}")
    counts = [count for count, _, _ in taken]
    print(f"seeds to detection of {len(counts)} faults: {statistics.median(counts):g} at the median, {counts[-1]} at most", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "rotate", "apply", "matrix"])
    parser.add_argument("values", nargs="*", help="names (run, matrix; patterns allowed) or a count (rotate)")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder for copies and programs")
    parser.add_argument("--compiler", required=True, nargs="+", help="C++ compiler, with a launcher before it if wanted (ccache g++)")
    parser.add_argument("--catch-main", type=pathlib.Path, required=True, help="object file with Catch2's main")
    parser.add_argument("--library", type=pathlib.Path, required=True, help="the engine's library, built without a fault")
    parser.add_argument("--patches", type=pathlib.Path, default=PATCHES, help="folder of the faults")
    options = parser.parse_args()
    compiler = [word for words in options.compiler for word in words.split(";") if word]
    workshop = Workshop(options.work.resolve(), compiler, options.catch_main.resolve(), options.library.resolve())
    try:
        faults = read_faults(options.patches)
        missed = []
        if options.command == "apply":
            check_that_all_apply(workshop, faults)
        elif options.command == "matrix":
            missed = matrix(workshop, chosen(faults, options.values or ["*"]))
        else:
            picked = chosen(faults, options.values) if options.command == "run" else rotated(faults, int(options.values[0]))
            missed = [fault for fault in picked if not check(workshop, fault)]
    except BrokenCheck as error:
        sys.exit(f"planted: {error}")
    if missed:
        sys.exit("planted: not found: " + ", ".join(fault.name for fault in missed))


if __name__ == "__main__":
    main()
