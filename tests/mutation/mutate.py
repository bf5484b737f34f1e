#!/usr/bin/env python3
"""Changes one constant, comparison or operand at a time in scheduler, allocator and attention, and looks which test finds it.

  mutate.py run [--subject S]...  a seeded sample of each subject against its tests; goes on where it was stopped; ends with a table
  mutate.py rotate N              N mutants, others for each commit, each against the test file that found it when mutants.json was written

mutants.json holds the sample: each mutant has "found_by", a test file, or "kept", the reason why no test finds it. Less than 95 % found,
or a mutant that is neither, is a failure. `run --record` writes what it found; reasons are written by hand.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import math
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys

import places
from places import ROOT

RECORD = pathlib.Path(__file__).with_name("mutants.json")
TESTS = {
    "scheduler": ["sched/*_test.cpp"],
    "allocator": ["cache_alloc/*_test.cpp", "cache_tier/*_test.cpp"],
    "attention": ["kernels/paged_attention/*_test.cpp", "kernels_law/attention_law_test.cpp"],
}
ONLY_SANITIZED = {"kernels/paged_attention/memory_test.cpp"}
# Beside the sources whose headers a test includes.
FURTHER_PARTS = {"kernels/paged_attention/attention_problem.cpp": ["kernels/paged_attention/attention_storages.cpp"]}
LEAST_PERCENT = 95.0
LEAST_CPU_LIMIT_S = 10
ENVIRONMENT = {**os.environ, "KVPAGE_NIGHT": "0", "KVPAGE_MODEL_OPS": "200000"}


class BrokenCheck(Exception):
    """The check itself cannot be made."""


def tests_of(subject):
    found = {path.relative_to(ROOT / "tests").as_posix() for pattern in TESTS[subject] for path in (ROOT / "tests").glob(pattern)}
    return sorted(found - ONLY_SANITIZED)


def parts_of(source):
    """The source files that a test program is built from."""
    tests = ROOT / "tests"
    included = re.findall(r'^#include "(.+)\.hpp"$', (tests / source).read_text(encoding="utf-8"), re.MULTILINE)
    beside = [(tests / source).parent / f"{name}.cpp" for name in included] + [tests / f"{name}.cpp" for name in included]
    parts = [source] + [path.relative_to(tests).as_posix() for path in beside if path.is_file()]
    return list(dict.fromkeys(parts + [more for part in parts for more in FURTHER_PARTS.get(part, [])]))


class Workshop:
    """A copy of the headers with mutants in it, and the test programs that are built with them."""

    def __init__(self, folder, compiler, catch_main):
        self.folder, self.compiler, self.catch_main = folder, compiler, catch_main

    def plant(self, numbered):
        shutil.rmtree(self.folder / "include", ignore_errors=True)
        shutil.copytree(ROOT / "include", self.folder / "include")
        places.write_mutants(self.folder, numbered)

    def compile(self, arguments):
        flags = ["-std=c++20", "-O1", "-ffp-contract=off", "-DKVPAGE_ASSERT_LEVEL=2", f'-DKVPAGE_TEST_DATA_DIR="{ROOT}/tests/data"',
                 "-Iinclude", f"-I{ROOT}/examples", f"-I{ROOT}/tests", "-w"]
        return subprocess.run([*self.compiler, *flags, *arguments], cwd=self.folder, text=True, capture_output=True, check=False)

    def broken_lines(self, sources):
        """(path, line) of the headers that errors of the compiler name: there a mutant is no program."""
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            runs = list(pool.map(lambda part: self.compile(["-fsyntax-only", str(ROOT / "tests" / part)]), sources))
        texts = [run.stderr for run in runs if run.returncode != 0]
        lines = {(path, int(line)) for text in texts for path, line in re.findall(r"\b(include/kvpage/[\w/.]+):(\d+):", text)}
        if texts and not lines:
            raise BrokenCheck(f"a test does not compile\n{texts[0][-3000:]}")
        return lines

    def build(self, sources):
        """{source: program}"""
        parts = sorted({part for source in sources for part in parts_of(source)})
        objects = {part: self.folder / (part.replace("/", ".") + ".o") for part in parts}
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda part: self.require(["-c", str(ROOT / "tests" / part), "-o", objects[part].name]), parts))
        programs = {source: self.folder / (source.replace("/", ".") + ".bin") for source in sources}
        for source, program in programs.items():
            self.require([*(objects[part].name for part in parts_of(source)), str(self.catch_main), "-pthread", "-o", str(program)])
        return programs

    def require(self, arguments):
        done = self.compile(arguments)
        if done.returncode != 0:
            raise BrokenCheck(f"{' '.join(arguments)} fails\n{done.stderr[-3000:]}")


def run_tests(program, cpu_limit_s, **environment):
    """True when every test passes within so much processor time; the wall clock depends on who else is there."""
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_limit_s, cpu_limit_s + 5))
    try:
        done = subprocess.run([program, "~[night]", "--abort"], capture_output=True, check=False, timeout=60 * cpu_limit_s,
                              env={**ENVIRONMENT, **environment}, cwd=program.parent, preexec_fn=limit)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


@dataclasses.dataclass
class CleanRun:
    """A test program without a mutant: its processor time and which mutants' code it reaches."""
    source: str
    program: pathlib.Path
    cpu_s: float
    reached: set


def run_clean(source, program):
    reached = program.with_suffix(".reached")
    reached.unlink(missing_ok=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not run_tests(program, 1200, KVPAGE_MUTANT="0", KVPAGE_MUTANTS_REACHED=str(reached)):
        raise BrokenCheck(f"{source} fails without a mutant")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    numbers = reached.read_text(encoding="utf-8").split() if reached.is_file() else []  # no file: it asked for none
    return CleanRun(source, program, cpu_s, {int(number) for number in numbers})


def first_finding(number, clean_runs):
    """The test file that finds mutant `number`; None: none does."""
    for clean in sorted(clean_runs, key=lambda run: run.cpu_s):
        limit_s = math.ceil(LEAST_CPU_LIMIT_S + 5 * clean.cpu_s)
        if number in clean.reached and not run_tests(clean.program, limit_s, KVPAGE_MUTANT=str(number)):
            return clean.source
    return None


def sample(workshop, subject, count, seed):
    """{number: place}: the first `count` places of the draw that compile."""
    drawn = places.in_order(places.places_of(subject), seed)
    taken, dropped = [], 0
    sources = sorted({part for source in tests_of(subject) for part in parts_of(source)})
    while len(taken) < count:
        fresh = [place for place, _ in zip(drawn, range(2 * (count - len(taken))))]
        if not fresh:
            raise BrokenCheck(f"{subject} has no {count} places")
        while fresh:
            workshop.plant(dict(enumerate(taken + fresh, start=1)))
            broken = workshop.broken_lines(sources)
            if not broken:
                break
            kept = [place for place in fresh if (place.path, place.line) not in broken]
            if len(kept) == len(fresh):
                raise BrokenCheck(f"no mutant is in the lines that do not compile: {sorted(broken)[:5]}")
            dropped += len(fresh) - len(kept)
            fresh = kept
        taken += fresh
    print(f"{subject}: {dropped} places of the draw are no program when mutated", flush=True)
    return dict(enumerate(taken[:count], start=1))


def run_subject(workshop, subject, options):
    """[(place, what finds it or None)]; results are kept beside the programs, so that a stopped run goes on."""
    results_path = workshop.folder / "results.jsonl"
    known = {}
    if results_path.is_file():
        known = {row["key"]: row["found_by"] for row in map(json.loads, results_path.read_text(encoding="utf-8").splitlines())}
        known = {key: found for key, found in known.items() if found or not options.again}
    numbered = sample(workshop, subject, options.count, options.seed)
    if any(place.key not in known for place in numbered.values()):
        workshop.plant(numbered)
        clean_runs = [run_clean(source, program) for source, program in workshop.build(tests_of(subject)).items()]
        with results_path.open("a", encoding="utf-8") as results, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            todo = [(number, place) for number, place in numbered.items() if place.key not in known]
            for (_, place), found in zip(todo, pool.map(lambda item: first_finding(item[0], clean_runs), todo)):
                known[place.key] = found
                print(f"{found or 'NOT FOUND'}: {place}", flush=True)
                print(json.dumps({"key": place.key, "found_by": found}), file=results, flush=True)
    return [(place, known[place.key]) for place in numbered.values()]


def read_record():
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else {"seed": 1, "mutants": []}


def run(options):
    reasons = {row["key"]: row["kept"] for row in read_record()["mutants"] if "kept" in row}
    rows = []
    for subject in options.subject or places.SUBJECTS:
        folder = options.work.resolve() / subject
        folder.mkdir(parents=True, exist_ok=True)
        for place, found in run_subject(Workshop(folder, options.compiler, options.catch_main), subject, options):
            row = {"key": place.key, "subject": subject, "path": place.path, "text": place.text, "change": place.change}
            rows.append(row | ({"found_by": found} if found else {"kept": reasons.get(place.key, "")}))
    if options.record:
        others = [row for row in read_record()["mutants"] if options.subject and row["subject"] not in options.subject]
        RECORD.write_text(json.dumps({"seed": options.seed, "mutants": others + rows}, indent=1) + "\n", encoding="utf-8")
    for subject in sorted({row["subject"] for row in rows}):
        found = [row for row in rows if row["subject"] == subject and "found_by" in row]
        print(f"{subject}: {len(found)} of {sum(row['subject'] == subject for row in rows)} mutants found")
    unexplained = [row for row in rows if row.get("kept") == ""]
    for row in unexplained:
        print(f"no test finds it and no reason is given: {row['path']}: {row['change']} in `{row['text']}`")
    percent = 100.0 * sum("found_by" in row for row in rows) / len(rows)
    print(f"{percent:.1f} % of {len(rows)} mutants found")
    return percent >= LEAST_PERCENT and not unexplained


def rotate(options):
    """Neighbours in the record that one test file finds, so that they share a build."""
    by_key = {place.key: place for subject in places.SUBJECTS for place in places.places_of(subject)}
    found = [row for row in read_record()["mutants"] if "found_by" in row]
    present = [row for row in found if row["key"] in by_key]
    if not found:
        raise BrokenCheck(f"{RECORD.name} has no mutant that a test finds: mutate.py run --record writes it")
    if len(present) < 0.8 * len(found):
        raise BrokenCheck(f"only {len(present)} of {len(found)} recorded places are left: mutate.py run --record draws a new sample")
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], text=True, capture_output=True, check=False)
    first = present[int(done.stdout.strip() or "0", 16) % len(present)]  # without git: the first one
    same_test = [row for row in present if row["found_by"] == first["found_by"]]
    start = same_test.index(first)
    chosen = [same_test[(start + i) % len(same_test)] for i in range(min(options.number, len(same_test)))]
    numbered = {number: by_key[row["key"]] for number, row in enumerate(chosen, start=1)}
    folder = options.work.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    workshop = Workshop(folder, options.compiler, options.catch_main)
    workshop.plant(numbered)
    clean = run_clean(first["found_by"], workshop.build([first["found_by"]])[first["found_by"]])
    missed = False
    for number, place in numbered.items():
        finding = first_finding(number, [clean])
        missed |= finding is None
        print(f"{finding or 'NOT FOUND'}: {place}", flush=True)
    return not missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--work", type=pathlib.Path, required=True, help="folder for copies, programs and results")
    shared.add_argument("--compiler", required=True, nargs="+", help="C++ compiler, with a launcher before it if wanted (ccache g++)")
    shared.add_argument("--catch-main", type=pathlib.Path, required=True, help="object file with Catch2's main")
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("run", parents=[shared], help="the whole sample")
    verb.add_argument("--subject", action="append", choices=list(places.SUBJECTS), help="may be repeated (default: all)")
    verb.add_argument("--count", type=int, default=40, help="mutants of each subject (default 40)")
    verb.add_argument("--seed", type=int, default=1, help="of the draw (default 1)")
    verb.add_argument("--again", action="store_true", help="try those again that nothing found")
    verb.add_argument("--record", action="store_true", help="write mutants.json")
    verb.set_defaults(function=run)
    verb = verbs.add_parser("rotate", parents=[shared], help="a few of mutants.json, by commit")
    verb.add_argument("number", type=int)
    verb.set_defaults(function=rotate)
    options = parser.parse_args()
    options.compiler = [word for words in options.compiler for word in words.split(";") if word]
    options.catch_main = options.catch_main.resolve()
    try:
        if not options.function(options):
            sys.exit(1)
    except BrokenCheck as error:
        sys.exit(f"mutate: {error}")


if __name__ == "__main__":
    main()
