#!/usr/bin/env python3
"""count_results.py FOLDER...: adds up tests.json and results.xml of each folder; the last line is the sum.

A test may be skipped only if one of its labels allows it; any other skip, and a test that did not run, is a failure.
"""

import json
import os
import pathlib
import re
import sys
import xml.etree.ElementTree

MAY_SKIP = re.compile(r"cuda|qwen1\.5b|isa-.+" + ("" if os.environ.get("KVPAGE_NIGHT") == "1" else "|night"))


def labels_by_test(folder):
    listing = json.loads((folder / "tests.json").read_text(encoding="utf-8"))
    labels = {}
    for test in listing["tests"]:
        properties = {item["name"]: item["value"] for item in test.get("properties", [])}
        labels[test["name"]] = properties.get("LABELS", [])
    return labels


def outcome(case, labels):
    """("passed" | "failed" | "skipped", reason)"""
    output = (case.findtext("system-out") or "").strip()
    if case.get("status") == "run":
        return "passed", ""
    reason = next((line for line in output.splitlines() if line.startswith("SKIPPED")), "no reason given")
    if case.get("status") != "notrun":
        return "failed", f"status {case.get('status')}"
    if not any(MAY_SKIP.fullmatch(label) for label in labels):
        return "failed", f"did not run, and none of its labels {labels} allows that: {reason}"
    if reason == "no reason given":
        return "failed", "skipped without saying why"
    return "skipped", reason


def main():
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for folder in map(pathlib.Path, sys.argv[1:]):
        labels = labels_by_test(folder)
        cases = {case.get("name"): case for case in xml.etree.ElementTree.parse(folder / "results.xml").iter("testcase")}
        for name in sorted(labels.keys() | cases.keys()):
            if name in cases:
                result, reason = outcome(cases[name], labels.get(name, []))
            else:
                result, reason = "failed", "has no result"
            counts[result] += 1
            if result != "passed":
                print(f"{result}: {folder.name}: {name}: {reason}")
        if not labels:
            sys.exit(f"{folder}: holds no test")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    sys.exit(1 if counts["failed"] else 0)


if __name__ == "__main__":
    main()
