#!/usr/bin/env python3
"""Group cache: the block allocator and prefix index beside their floors, append_kv beside memcpy, and what a cached prompt saves."""

import json
import pathlib
import random
import tempfile

import figures
from support.rounds import Rounds

ROUNDS = 5
SHARED_TOKENS = 1024
OWN_TOKENS = 32
AGAINST = {"alloc_pairs": ("bare free list", "bare_list_pairs"), "match_4096": ("the hashes alone", "match_4096_hash_only")}


def lines_of(program, *arguments):
    output, _ = figures.run([figures.PROGRAMS / program, *arguments])
    return [json.loads(line) for line in output.splitlines()]


def in_base_units(row):
    """Microseconds become seconds."""
    return {**row, "value": row["value"] * 1e-6, "unit": "s"} if row["unit"] == "us" else row


def allocator():
    rows = {row["figure"].removeprefix("cache."): in_base_units(row) for row in lines_of("cache_alloc_bench")}
    for name in ("alloc_pairs", "alloc_pairs_indexed", "match_4096", "utilisation"):
        against, key = AGAINST.get(name, (None, None))
        figures.figure(f"cache.{name}", rows[name]["value"], rows[name]["unit"], against, rows[key]["value"] if key else None)


def append_kv():
    figures.benchmark_figures("cache_append_kv_bench", figures.cores())


def write_requests(path):
    """Two prompts of random text tokens with one long common start."""
    draw = random.Random(4)
    shared = [draw.randrange(1000, 20000) for _ in range(SHARED_TOKENS)]
    prompts = [shared + [draw.randrange(1000, 20000) for _ in range(OWN_TOKENS)] for _ in range(2)]
    path.write_text("".join(json.dumps({"id": str(i), "prompt_ids": prompt, "max_tokens": 1}) + "\n" for i, prompt in enumerate(prompts)),
                    encoding="utf-8")


def second_ttft(model, requests, *switches, show):
    answer = figures.kvpage_bench(model, "--requests", requests, "--max-seqs", 1, *switches, show=show)
    first, second = answer["requests"]
    expected = 0 if "--no-prefix-cache" in switches else SHARED_TOKENS
    if second["cached_tokens"] != expected:
        raise SystemExit(f"the second request has {second['cached_tokens']} cached tokens, not {expected}")
    return second["ttft_s"] - first["end_to_end_s"]  # both arrive at the start; the second one begins when the first one has ended


def ttft():
    model = figures.model("smollm2")
    if model is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        requests = pathlib.Path(folder) / "requests.jsonl"
        write_requests(requests)
        results = Rounds(ROUNDS).measure({
            "kvpage": lambda show: {"ttft": second_ttft(model, requests, show=show)},
            "off": lambda show: {"ttft": second_ttft(model, requests, "--no-prefix-cache", show=show)}})
    figures.paired_figure(f"cache.ttft_prefix_{SHARED_TOKENS}", results, "ttft", "s", "without the prefix cache", "off")


def main():
    figures.describe_machine()
    allocator()
    append_kv()
    ttft()


if __name__ == "__main__":
    main()
