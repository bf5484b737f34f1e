#!/usr/bin/env python3
"""Group load: from process start to the first token with the file in the page cache, and the rate of loading.

The first token is measured as in `tools/bench.sh cpu --only load`, of every model that is there; llama.cpp is the fastest of its programs.
"""

import figures
from support.cpu_work import Llama, Ours
from support.rounds import Rounds

ROUNDS = 5


def load_seconds(path):
    return figures.kvpage_bench(path, "--threads", figures.cores(), "--prompt-tokens", 1, "--gen", 1, show=False)["load_s"]


def measure(name, path, programs):
    def ours(show):
        return Ours(path).first_token(show) | {"rate": path.stat().st_size / load_seconds(path)}

    sides = {"kvpage": ours} | ({"llama": Llama(programs, path).first_token()} if programs else {})
    results = Rounds(ROUNDS).measure(sides)
    figures.paired_figure(f"load.{figures.label(name)}", results, "s", "s", "llama.cpp", "llama")
    figures.paired_figure(f"load.rate.{figures.label(name)}", results, "rate", "B/s")


def main():
    figures.describe_machine()
    programs = figures.Llama.find()
    figures.figure("load.memory_copy_all_cores", figures.memory_rates()["copy_n"], "B/s")
    for name in ("smollm2", "gemma3", "qwen0.5b", "qwen1.5b"):
        path = figures.model(name)
        if path:
            measure(name, path, programs)


if __name__ == "__main__":
    main()
