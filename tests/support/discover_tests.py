#!/usr/bin/env python3
"""Writes the ctest entries of one Catch2 program: one entry per TEST_CASE, its tags as labels."""

import argparse
import os
import re
import subprocess
import sys

SKIP_EXIT_CODE = 77
TIMEOUT_S = 900
NIGHT_TIMEOUT_S = 12 * 3600
NAME_RULE = re.compile(r"^[A-Za-z0-9_]+\.[^\s.]\S*( - .*)?$")  # " - Type" is what TEMPLATE_TEST_CASE appends


def listing(program, *arguments):
    # Catch2 v2 exits with the number of listed tests, so the exit code says nothing; a crash has a negative one.
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode < 0 or done.stderr.strip():
        sys.exit(f"{program} {' '.join(arguments)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def test_names(program, test_spec):
    lines = listing(program, "--list-test-names-only", test_spec).splitlines()
    return [line.strip().strip('"') for line in lines if line.strip()]


def tags_by_test(program):
    """{name: [tag, ...]} of every test, hidden ones included."""
    tests = {name: [] for name in test_names(program, "*,[.]")}
    for tag in sorted(set(re.findall(r"\[([^\]]+)\]", listing(program, "--list-tags", "*,[.]")))):
        for name in test_names(program, f"[{tag}]"):
            tests[name].append(tag)
    return tests


def escaped_spec(name):
    return re.sub(r"([,\[\]\\*])", r"\\\1", name)


def entry(program, name, labels):
    skip = f"/bin/sh -c \"echo 'SKIPPED: long-running; tools/test.sh --night runs it'; exit {SKIP_EXIT_CODE}\""
    quoted, run = f"[==[{name}]==]", f"[==[{program}]==] [==[{escaped_spec(name)}]==] -w NoAssertions"
    timeout_s = NIGHT_TIMEOUT_S if "night" in labels else TIMEOUT_S
    lines = [f"add_test({quoted} {run})"]
    if "night" in labels:
        lines = ['if("$ENV{KVPAGE_NIGHT}" STREQUAL "1")', f"  {lines[0]}", "else()", f"  add_test({quoted} {skip})", "endif()"]
    lines.append(f"set_tests_properties({quoted} PROPERTIES SKIP_RETURN_CODE {SKIP_EXIT_CODE} TIMEOUT {timeout_s}"
                 f" LABELS [==[{';'.join(labels)}]==])")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--area", required=True)
    parser.add_argument("--labels", default="", help="added to every entry, separated by ;")
    options = parser.parse_args()
    tests = tags_by_test(options.program)
    if not tests:
        sys.exit(f"{options.program}: holds no TEST_CASE")
    wrong = [name for name in tests if not NAME_RULE.match(name)]
    if wrong:
        sys.exit(f"{options.program}: test names are area.thing.what_holds, without blanks: {wrong[0]!r}")
    for name in tests:
        if not re.match(r"^[\w.]+$", name) and test_names(options.program, escaped_spec(name)) != [name]:
            sys.exit(f"{options.program}: no test spec selects exactly {name!r}; rename it")
    extra = [label for label in options.labels.split(";") if label] + [options.area]
    temporary = options.output + ".tmp"
    with open(temporary, "w", encoding="utf-8") as out:
        for name, tags in tests.items():
            out.write(entry(options.program, name, sorted({tag.lstrip(".") for tag in tags if tag != "."} | set(extra))))
    os.replace(temporary, options.output)


if __name__ == "__main__":
    main()
