#!/usr/bin/env python3
"""Group build: what each public header costs a compiler above an empty file: seconds of processor time, -fsyntax-only, best of 3.

build.COMPILER.empty_unit, build.COMPILER.header.NAME, build.COMPILER.all_headers; g++ and clang++, a compiler that is absent is left out.
Arguments: parts of header names; only the headers that have one of them are compiled.
"""

import resource
import shutil
import subprocess
import sys

import figures

INCLUDE = figures.ROOT / "include"
ROUNDS = 3
# What a user includes first, and what it may cost: seconds above an empty file.
WANTED = {"cache-block_allocator": 0.3, "sched-continuous_scheduler": 0.6, "kernels-paged_attention-cpu": 0.8}


def compile_seconds(compiler, headers):
    """Processor time of one compilation; a failure ends the group."""
    source = "".join(f"#include <{header}>\n" for header in headers)
    best = float("inf")
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", f"-I{INCLUDE}", "-x", "c++", "-"],
                              input=source, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != 0:
            sys.exit(f"{compiler}: {', '.join(headers)}: does not compile\n{done.stderr[-2000:]}")
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def measure(compiler, headers):
    empty = compile_seconds(compiler, [])
    figures.figure(f"build.{compiler}.empty_unit", empty, "s")
    for header in headers:
        name = header.removeprefix("kvpage/").removesuffix(".hpp").replace("/", "-")
        seconds = compile_seconds(compiler, [header]) - empty
        figures.figure(f"build.{compiler}.header.{name}", seconds, "s", "wanted", WANTED.get(name))
    figures.figure(f"build.{compiler}.all_headers", compile_seconds(compiler, headers) - empty, "s")


def main():
    figures.describe_machine()
    figures.note(f"-std=c++20 -fsyntax-only, processor time above an empty file, best of {ROUNDS}; each header alone")
    headers = sorted(path.relative_to(INCLUDE).as_posix() for path in INCLUDE.rglob("*.hpp"))
    if sys.argv[1:]:
        headers = [header for header in headers if any(part in header for part in sys.argv[1:])]
    if not headers:
        sys.exit(f"no header has {' or '.join(sys.argv[1:])} in its name")
    for compiler in ("g++", "clang++"):
        if shutil.which(compiler):
            measure(compiler, headers)
        else:
            figures.note(f"{compiler} is absent; its figures are left out")


if __name__ == "__main__":
    main()
