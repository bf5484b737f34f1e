#!/usr/bin/env python3
"""Changes one constant, comparison or operand at a time in scheduler, allocator and attention, and looks which test finds it.

  mutate.py run [--subject S]...  a seeded sample of each subject against its tests; goes on where it was stopped; ends with a table
  mutate.py rotate N              N mutants, others for each commit, each against the test file that found it when mutants.json was written

mutants.json holds the sample: each mutant has "found_by", a test file, or "equivalent", the reason why it changes nothing that anybody
can see, or "kept", another reason why no test finds it. Less than 95 % found of those that are not equivalent, or a mutant without a
reason, is a failure. `run --record` writes what it found; reasons are written by hand.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

import places
from places import ROOT
from workshop import BrokenCheck, Workshop, first_finding, run_clean, units_of

RECORD = pathlib.Path(__file__).with_name("mutants.json")
TESTS = {
    "scheduler": ["sched/*_test.cpp"],
    "allocator": ["cache_alloc/*_test.cpp", "cache_tier/*_test.cpp"],
    "attention": ["kernels/paged_attention/*_test.cpp", "kernels_law/attention_law_test.cpp", "custom_precision/own_kv_test.cpp"],
}
ONLY_SANITIZED = {"kernels/paged_attention/memory_test.cpp"}
LEAST_PERCENT = 95.0
NO_PROGRAM = "no program"  # a result: it does not compile


def tests_of(subject):
    found = {path.relative_to(ROOT / "tests").as_posix() for pattern in TESTS[subject] for path in (ROOT / "tests").glob(pattern)}
    return sorted(found - ONLY_SANITIZED)


class Results:
    """{key: the test file that finds it, or None, or NO_PROGRAM}, kept in a file, so that a stopped run goes on."""

    def __init__(self, path, again):
        self.path = path
        rows = map(json.loads, path.read_text(encoding="utf-8").splitlines()) if path.is_file() else []
        known = {row["key"]: row["found_by"] for row in rows}
        self.known = {key: found for key, found in known.items() if found or not again}

    def add(self, place, found):
        self.known[place.key] = found
        print(f"{found or 'NOT FOUND'}: {place}", flush=True)
        with self.path.open("a", encoding="utf-8") as file:
            print(json.dumps({"key": place.key, "found_by": found}), file=file)


def sample(workshop, subject, options, results):
    """{number: place}: the first `count` places of the draw that compile. They are built, unless every result is known."""
    drawn = (place for place in places.in_order(places.places_of(subject), options.seed) if results.known.get(place.key) != NO_PROGRAM)
    taken = []
    while True:
        taken += [place for _, place in zip(range(options.count - len(taken)), drawn)]
        if len(taken) < options.count:
            raise BrokenCheck(f"{subject} has no {options.count} places")
        numbered = dict(enumerate(taken, start=1))
        if all(place.key in results.known for place in taken):
            return numbered
        workshop.plant(numbered)
        broken = workshop.broken_lines(units_of(tests_of(subject)))
        if not broken:
            return numbered
        no_programs = [place for place in taken if (place.path, place.line) in broken]
        if not no_programs:
            raise BrokenCheck(f"no mutant is in the lines that do not compile: {sorted(broken)[:5]}")
        for place in no_programs:
            results.add(place, NO_PROGRAM)
        taken = [place for place in taken if place not in no_programs]


def run_subject(workshop, subject, options):
    """[(place, what finds it or None)]"""
    results = Results(workshop.folder / "results.jsonl", options.again)
    numbered = sample(workshop, subject, options, results)
    todo = [(number, place) for number, place in numbered.items() if place.key not in results.known]
    if todo:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            units = units_of(tests_of(subject))
            clean_runs = [run_clean(source, program) for unit, program in zip(units, pool.map(workshop.link, units))
                          for source in unit.sources]
            for (_, place), found in zip(todo, pool.map(lambda item: first_finding(item[0], clean_runs), todo)):
                results.add(place, found)
    return [(place, results.known[place.key]) for place in numbered.values()]


def read_record():
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else {"seed": 1, "mutants": []}


def reason_of(place, record):
    """What mutants.json says about a mutant that no test finds."""
    row = next((row for row in record["mutants"] if row["key"] == place.key), {})
    return {key: row[key] for key in ("equivalent", "kept") if row.get(key)} or {"kept": ""}


def run(options):
    record = read_record()
    rows = []
    for subject in options.subject or places.SUBJECTS:
        folder = options.work.resolve() / subject
        folder.mkdir(parents=True, exist_ok=True)
        for place, found in run_subject(Workshop(folder, options.compiler, options.catch_main), subject, options):
            row = {"key": place.key, "subject": subject, "path": place.path, "text": place.text, "change": place.change}
            rows.append(row | ({"found_by": found} if found else reason_of(place, record)))
    if options.record:
        others = [row for row in record["mutants"] if options.subject and row["subject"] not in options.subject]
        RECORD.write_text(json.dumps({"seed": options.seed, "mutants": others + rows}, indent=1) + "\n", encoding="utf-8")
    for subject in sorted({row["subject"] for row in rows}):
        print(summary(subject, [row for row in rows if row["subject"] == subject]))
    unexplained = [row for row in rows if row.get("kept") == ""]
    for row in unexplained:
        print(f"no test finds it and no reason is given: {row['path']}: {row['change']} in `{row['text']}`")
    print(summary("all", rows))
    return percent_found(rows) >= LEAST_PERCENT and not unexplained


def percent_found(rows):
    return 100.0 * sum("found_by" in row for row in rows) / sum("equivalent" not in row for row in rows)


def summary(name, rows):
    found, equivalent, kept = (sum(key in row for row in rows) for key in ("found_by", "equivalent", "kept"))
    return f"{name}: {found} mutants found, {equivalent} equivalent, {kept} kept: {percent_found(rows):.1f} % of those that can be found"


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
    (unit,) = units_of([first["found_by"]])
    if workshop.broken_lines([unit]):
        raise BrokenCheck(f"{first['found_by']} does not compile with its mutants: mutate.py run --record draws a new sample")
    clean = run_clean(first["found_by"], workshop.link(unit))
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
