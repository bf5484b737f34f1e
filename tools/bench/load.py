#!/usr/bin/env python3
"""Group load: from process start to the first token with the file in the page cache, and the rate of loading."""

import figures

ROUNDS = 5


def measure(name, path, llama, threads):
    def ours(show):
        answer = figures.kvpage_bench(path, "--threads", threads, "--prompt-tokens", 1, "--gen", 1, show=show)
        return answer["process_s"], answer["load_s"]

    def peer(show):
        _, seconds = llama.run("bench", "-m", path, "-t", threads, "-fa", 1, "-p", 0, "-n", 1, "-r", 1, "--no-warmup", "-o", "jsonl", show=show)
        return seconds

    measurements = {"kvpage": ours} | ({"llama": peer} if llama else {})
    result = figures.interleaved(ROUNDS, **measurements)
    process_s, load_s = result["kvpage"]
    figures.figure(f"load.{figures.label(name)}", process_s, "s", "llama.cpp llama-bench -n 1", result.get("llama"))
    figures.figure(f"load.rate.{figures.label(name)}", path.stat().st_size / load_s, "B/s")


def main():
    figures.describe_machine()
    llama, threads = figures.Llama.find(), figures.cores()
    figures.figure("load.memory_copy_all_cores", figures.memory_rates()["copy_n"], "B/s")
    for name in ("smollm2", "gemma3", "qwen0.5b", "qwen1.5b"):
        path = figures.model(name)
        if path:
            measure(name, path, llama, threads)


if __name__ == "__main__":
    main()
