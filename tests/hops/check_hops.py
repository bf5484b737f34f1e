#!/usr/bin/env python3
"""Runs a traced program and requires that it passes every hop of a document, in the order of the document.

A hop is a numbered list item that starts with `file:function`, below the heading "Follow one token".
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HOP = re.compile(r"^\d+\. `([\w./-]+):([\w~]+(?:::[\w~]+)*)`")
HEADING = re.compile(r"^#+ .*follow one token", re.IGNORECASE)


def listed_hops(document):
    """[(file, function)] of the section, up to the next heading."""
    hops, inside = [], False
    for line in document.splitlines():
        if line.startswith("#"):
            inside = bool(HEADING.match(line))
        elif inside and HOP.match(line):
            hops.append(HOP.match(line).groups())
    return hops


def bare_name(symbol):
    """a::b::f<int>(float) const -> ["a", "b", "f"]; what stands in brackets (arguments, template arguments) goes."""
    symbol = re.sub(r"operator(<=>|<<|>>|<=|>=|->|<|>|\(\))", "operator", symbol.replace("(anonymous namespace)::", ""))
    symbol = re.sub(r"\[(abi|clone)[^\]]*\]", "", symbol)
    kept, depth = [], 0
    for char in symbol:
        if char in "<({[":
            depth += 1
        elif char in ">)}]":
            depth -= 1
        elif depth == 0:
            kept.append(char)
    words = "".join(kept).replace(" const", "").split()
    return words[-1].split("::") if words else [""]


def trace(program, work):
    """[(file, [scope, ..., function])] of every call, in order."""
    log = work / "trace.txt"
    subprocess.run([program, str(log)], check=True)
    addresses = log.read_text().split()
    unique = sorted(set(addresses))
    answer = subprocess.run(["addr2line", "-f", "-C", "-e", program], input="\n".join(unique), capture_output=True, text=True, check=True)
    lines = answer.stdout.splitlines()
    if len(lines) != 2 * len(unique):
        sys.exit(f"addr2line answered {len(lines)} lines for {len(unique)} addresses")
    place = {a: (os.path.normpath(lines[2 * i + 1].rsplit(":", 1)[0]), bare_name(lines[2 * i])) for i, a in enumerate(unique)}
    return [place[address] for address in addresses]


def problems(hops, calls, root):
    """Why the calls do not pass the hops in order; empty when they do."""
    position = 0
    for number, (file, function) in enumerate(hops, start=1):
        want = os.path.normpath(root / file)
        if not os.path.isfile(want):
            return [f"hop {number}: there is no file {file}"]
        scopes = function.split("::")
        passed = [i for i, (path, name) in enumerate(calls) if path == want and name[-len(scopes):] == scopes]
        later = [i for i in passed if i >= position]
        if not passed:
            return [f"hop {number}: {file}:{function} is never called in the step"]
        if not later:
            return [f"hop {number}: {file}:{function} is called, but not after hop {number - 1}"]
        position = later[0] + 1
    return []


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--document", required=True)
    parser.add_argument("--root", required=True)
    parser.add_argument("--min-hops", type=int, default=10)
    options = parser.parse_args()
    hops = listed_hops(pathlib.Path(options.document).read_text(encoding="utf-8"))
    if len(hops) < options.min_hops:
        sys.exit(f"{options.document} lists {len(hops)} hops, at least {options.min_hops} wanted")
    with tempfile.TemporaryDirectory() as work:
        calls = trace(options.program, pathlib.Path(work))
    found = problems(hops, calls, pathlib.Path(options.root).resolve())
    if found:
        print("the step called, among others:")
        for path, name in sorted({(os.path.relpath(p, options.root), "::".join(n)) for p, n in calls if p.startswith(str(options.root))}):
            print(f"  {path}:{name}")
        sys.exit("\n".join(found))
    print(f"{len(hops)} hops passed in order, {len(calls)} calls traced")


if __name__ == "__main__":
    main()
