#!/usr/bin/env python3
"""Group run: prefill of 512 tokens and decode of 128 tokens, one sequence, with the machine's memory rate beside it."""

import json

import figures

ROUNDS = 5
PROMPT_TOKENS = 512
GENERATED_TOKENS = 128


def ours(path, threads, show):
    """(prefill, decode) in tok/s; decode starts from an empty cache, as llama-bench's does"""
    prefill = figures.kvpage_bench(path, "--threads", threads, "--prompt-tokens", PROMPT_TOKENS, "--gen", 0, show=show)
    decode = figures.kvpage_bench(path, "--threads", threads, "--prompt-tokens", 1, "--gen", GENERATED_TOKENS + 1, show=show)
    return PROMPT_TOKENS / prefill["prefill_s"], decode["decode_steps"] / decode["decode_s"]


def peer(llama, path, threads, show):
    output, _ = llama.run("bench", "-m", path, "-t", threads, "-fa", 1, "-p", PROMPT_TOKENS, "-n", GENERATED_TOKENS, "-r", 1, "--no-warmup",
                          "-o", "jsonl", show=show)
    rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    prefill = next(row["avg_ts"] for row in rows if row["n_prompt"] == PROMPT_TOKENS)
    return prefill, next(row["avg_ts"] for row in rows if row["n_gen"] == GENERATED_TOKENS)


def main():
    figures.describe_machine()
    llama, threads, name = figures.Llama.find(), figures.cores(), "smollm2"
    path = figures.model(name)
    if path is None:
        raise SystemExit(1)
    measurements = {"kvpage": lambda show: ours(path, threads, show)}
    if llama:
        measurements["llama"] = lambda show: peer(llama, path, threads, show)
    result = figures.interleaved(ROUNDS, **measurements)
    memory = figures.memory_rates()
    peer_prefill, peer_decode = result.get("llama", (None, None))
    prefill, decode = result["kvpage"]
    figures.figure(f"run.prefill{PROMPT_TOKENS}.{figures.label(name)}", prefill, "tok/s", "llama.cpp llama-bench", peer_prefill)
    figures.figure(f"run.decode1.{figures.label(name)}", decode, "tok/s", "llama.cpp llama-bench", peer_decode)
    figures.figure("run.memory_read_1_thread", memory["read_1"], "B/s")
    figures.figure("run.memory_read_all_cores", memory["read_n"], "B/s")
    share = decode * path.stat().st_size / memory["read_n"]
    figures.figure(f"run.decode1_share_of_memory_rate.{figures.label(name)}", share, "fraction")


if __name__ == "__main__":
    main()
