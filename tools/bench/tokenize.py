#!/usr/bin/env python3
"""Group tokenize: bytes per second in process, and of `kvpage tokenize` against llama-tokenize.

The two programs load a model and print the ids; their rate is that of a long text minus a short one, so that loading drops
out. The peer gets the first part of the same text, as it is much slower.
"""

import json
import pathlib
import sys
import tempfile

import figures
from support.rounds import Rounds

ROUNDS = 3
TEXT_BYTES = 32_000_000
PEER_TEXT_BYTES = 2_000_000
MIN_SECONDS = 0.05  # a smaller difference of two runs says nothing


def main():
    figures.describe_machine()
    llama = figures.Llama.find()
    models = {name: path for name in ("smollm2", "gemma3", "qwen0.5b") if (path := figures.model(name))}
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        in_process = [f"{figures.label(name)}={path}" for name, path in models.items()]
        output, _ = figures.run([figures.PROGRAMS / "tokenize_bench", "--write-text", work / "part.txt", *in_process])
        for line in map(json.loads, output.splitlines()):
            figures.figure(line["figure"], line["value"], line["unit"])
        figures.run([figures.PROGRAMS / "tokenize_bench", "--bytes", TEXT_BYTES, "--write-text", work / "long.txt"], show=False)
        text = (work / "long.txt").read_bytes()
        (work / "part.txt").write_bytes(text[:PEER_TEXT_BYTES].rsplit(b" ", 1)[0])
        (work / "short.txt").write_text("short\n", encoding="utf-8")
        for name, path in models.items():
            measure(name, path, llama, work)


def rate(long_file, short_file, seconds):
    """Bytes per second of what `long_file` has more; `seconds(file)` runs a program on a file."""
    more = seconds(long_file) - seconds(short_file)
    if more < MIN_SECONDS:
        sys.exit(f"{long_file.name} took only {more:.3f} s longer than {short_file.name}: is the machine busy?")
    return (long_file.stat().st_size - short_file.stat().st_size) / more


def measure(name, path, llama, work):
    def ours(show):
        return rate(work / "long.txt", work / "short.txt",
                    lambda file: figures.run([figures.KVPAGE, "tokenize", "--model", path, "--file", file], show=show)[1])

    def peer(show):
        return rate(work / "part.txt", work / "short.txt",
                    lambda file: llama.run("tokenize", "-m", path, "-f", file, "--ids", "--no-bos", "--no-parse-special", "--log-disable",
                                           show=show)[1])

    sides = {"kvpage": lambda show: {"rate": ours(show)}} | ({"llama": lambda show: {"rate": peer(show)}} if llama else {})
    results = Rounds(ROUNDS).measure(sides)
    figures.paired_figure(f"tokenize.program.{figures.label(name)}", results, "rate", "B/s", "llama.cpp llama-tokenize", "llama")


if __name__ == "__main__":
    main()
