#!/usr/bin/env python3
"""Group run: prefill of 512 tokens and decode of 128 tokens of SmolLM2, one sequence, with the machine's memory rate beside it.

The short form of `tools/bench.sh cpu --only single`: one file, llama.cpp at its best, as there.
"""

import figures
from support.cpu_work import GENERATED, PROMPT, Llama, Ours
from support.rounds import Rounds

ROUNDS = 5
NAME = "smollm2"


def main():
    figures.describe_machine()
    path = figures.model(NAME)
    if path is None:
        raise SystemExit(1)
    programs = figures.Llama.find()
    sides = {"kvpage": Ours(path).single} | ({"llama": Llama(programs, path).single()} if programs else {})
    results = Rounds(ROUNDS).measure(sides)
    figures.paired_figure(f"run.prefill{PROMPT}.{figures.label(NAME)}", results, "prefill", "tok/s", "llama.cpp llama-bench", "llama")
    figures.paired_figure(f"run.decode1.{figures.label(NAME)}", results, "decode", "tok/s", "llama.cpp llama-bench", "llama")
    memory = figures.memory_rates()
    figures.figure("run.memory_read_1_thread", memory["read_1"], "B/s")
    figures.figure("run.memory_read_all_cores", memory["read_n"], "B/s")
    share = results.median("kvpage", "decode") * Ours(path).bytes_per_token() / max(memory["read_n"], memory["streams_n"])
    figures.figure(f"run.decode1_share_of_memory_rate.{figures.label(NAME)}", share, "fraction")
    figures.note(f"decode1 generates {GENERATED} tokens from an empty cache")


if __name__ == "__main__":
    main()
