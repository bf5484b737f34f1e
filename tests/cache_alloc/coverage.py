#!/usr/bin/env python3
"""Measures which branches of allocator and prefix index the model test and the swarm reach, and fails below 95 %.

The two tests are built with clang's coverage, without assertions, as their branches are never taken, and run for a few hundred
thousand operations. A branch is one way that one condition can go. Instantiations are one: a branch counts when any of them takes it.
Prints a table per header and every branch that was not taken. Exit code 77, skipped: clang or its tools are not here.
"""

import argparse
import bisect
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = ROOT / "include/kvpage/cache"
TESTS = ("model_test.cpp", "swarm_test.cpp")
RUNS = {"KVPAGE_MODEL_OPS": "300000", "KVPAGE_SWARM_EPISODES": "600", "KVPAGE_NIGHT": "0"}
LEAST_PERCENT = 95.0
SKIPPED = 77


def measured_headers():
    own = [CACHE / name for name in ("block_allocator.hpp", "cache_transaction.hpp", "prefix_index.hpp")]
    return own + sorted(path for path in (CACHE / "detail").glob("*.hpp") if not path.name.startswith("tier_"))


def find_tools():
    """(clang++, llvm-profdata, llvm-cov) of one version; exits as skipped when there are none."""
    for suffix in ("-14", "-15", "-16", ""):
        tools = [shutil.which(name + suffix) for name in ("clang++", "llvm-profdata", "llvm-cov")]
        if all(tools):
            return tools
    print("SKIPPED: needs clang++, llvm-profdata and llvm-cov of one version (Debian: clang-14 and llvm-14)")
    sys.exit(SKIPPED)


def run(command, **options):
    result = subprocess.run([str(part) for part in command], text=True, capture_output=True, **options)
    if result.returncode != 0:
        sys.exit(f"coverage: {command[0]} failed ({result.returncode}):\n{result.stdout[-4000:]}{result.stderr[-4000:]}")
    return result.stdout


def export(tools, work, catch_main, launcher):
    """Builds and runs the tests; llvm-cov's account of every measured header."""
    compiler, profdata, cov = tools
    programs = []
    for test in TESTS:
        program = work / pathlib.Path(test).stem
        run([*launcher, compiler, "-std=c++20", "-O1", "-fprofile-instr-generate", "-fcoverage-mapping", "-DKVPAGE_ASSERT_LEVEL=0",
             "-DKVPAGE_TEST_DATA_DIR=\"\"", f"-I{ROOT / 'include'}", f"-I{ROOT / 'tests'}", "-c", ROOT / "tests/cache_alloc" / test,
             "-o", f"{program}.o"])
        run([compiler, "-fprofile-instr-generate", f"{program}.o", catch_main, "-o", program])
        run([program, "-o", f"{program}.log"], env={**os.environ, **RUNS, "LLVM_PROFILE_FILE": f"{program}.profraw"})
        programs.append(program)
    profile = work / "all.profdata"
    run([profdata, "merge", "-sparse", *(f"{program}.profraw" for program in programs), "-o", profile])
    text = run([cov, "export", "-instr-profile", profile, programs[0], *(f"-object={p}" for p in programs[1:]), *measured_headers()])
    return json.loads(text)["data"][0]["files"]


def branches_of(file):
    """[(line, column, which way, times taken)] of conditions that are decided at run time."""
    taken = collections.defaultdict(lambda: [0, 0])
    for line, column, end_line, end_column, true_count, false_count, *_ in file["branches"]:
        counts = taken[(line, column, end_line, end_column)]
        counts[0] += true_count
        counts[1] += false_count
    starts = [(segment[0], segment[1]) for segment in file["segments"]]
    result = []
    for (line, column, *_), counts in sorted(taken.items()):
        segment = file["segments"][bisect.bisect_right(starts, (line, column)) - 1]
        if counts == [0, 0] and segment[2] > 0:
            continue  # reached, but never decided: a constant
        result += [(line, column, way, count) for way, count in zip(("true", "false"), counts)]
    return result


def report(files):
    """Prints the tables; the percentage of branches taken."""
    total = covered = 0
    missed = []
    print(f"{'header':<34}{'branches':>10}{'taken':>10}{'%':>8}")
    for file in sorted(files, key=lambda f: f["filename"]):
        name = pathlib.Path(file["filename"]).relative_to(CACHE).as_posix()
        branches = branches_of(file)
        if not branches:
            continue
        hit = sum(count > 0 for *_, count in branches)
        missed += [f"{name}:{line}:{column} is never {way}" for line, column, way, count in branches if count == 0]
        print(f"{name:<34}{len(branches):>10}{hit:>10}{100 * hit / len(branches):>8.1f}")
        total += len(branches)
        covered += hit
    percent = 100 * covered / total
    print(f"{'together':<34}{total:>10}{covered:>10}{percent:>8.1f}\n")
    print("\n".join(missed))
    return percent


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder for what is built")
    parser.add_argument("--catch-main", type=pathlib.Path, required=True, help="object file with Catch's main")
    parser.add_argument("--launcher", default="", help="compiler launcher, ;-separated")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    percent = report(export(find_tools(), args.work, args.catch_main, args.launcher.split(";") if args.launcher else []))
    if percent < LEAST_PERCENT:
        sys.exit(f"coverage: {percent:.1f} % of the branches are taken, at least {LEAST_PERCENT} % must be")


if __name__ == "__main__":
    main()
