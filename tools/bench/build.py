#!/usr/bin/env python3
"""Group build: seconds of processor time to compile a unit that includes one header, best of 3, g++ -O0."""

import os
import resource
import subprocess
import sys

import figures

INCLUDE = figures.ROOT / "include"
ROUNDS = 3


def compile_seconds(headers):
    """Processor time of one compilation; a failure ends the group."""
    source = "".join(f"#include <{header}>\n" for header in headers)
    best = float("inf")
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(["g++", "-std=c++20", "-O0", f"-I{INCLUDE}", "-x", "c++", "-c", "-", "-o", os.devnull],
                              input=source, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != 0:
            sys.exit(f"{', '.join(headers)}: does not compile\n{done.stderr[-2000:]}")
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def main():
    figures.describe_machine()
    figures.note("g++ -std=c++20 -O0 -c, processor time, best of 3; each header alone")
    headers = sorted(path.relative_to(INCLUDE).as_posix() for path in INCLUDE.rglob("*.hpp"))
    figures.figure("build.empty_unit", compile_seconds([]), "s")
    for header in headers:
        name = header.removeprefix("kvpage/").removesuffix(".hpp").replace("/", "-")
        figures.figure(f"build.header.{name}", compile_seconds([header]), "s")
    figures.figure("build.all_headers", compile_seconds(headers), "s")


if __name__ == "__main__":
    main()
