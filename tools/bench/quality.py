#!/usr/bin/env python3
"""Group quality: how far log-probabilities are from the golden floats, on every golden row, teacher-forced.

With 8-bit activations, as users run, for each model and KV format, beside llama.cpp with the cache nearest to it where
tools/setup_peers.sh has put that:
`quality.error.MODEL.TYPE`  mean |error| of a token's log-probability along the golden answers
`quality.nll.MODEL.TYPE`    summed log-loss of the prompts, as the share above the golden one (the logarithm of a perplexity)
With --float-activations the formats alone, without the rounding of activations on top, by the kernels `reference` on the rows with
prompts of at most 60 tokens, against the same with an f32 cache; that takes about an hour:
`quality.float.kv_logprob.MODEL.TYPE` and `quality.float.kv_nll.MODEL.TYPE`.
"""

import argparse
import json
import pathlib
import tempfile
import time

import figures
from support import llama_score

GOLDEN = {"smollm2": "smollm2", "gemma3": "gemma3", "qwen0.5b": "qwen2.5-coder-0.5b", "qwen1.5b": "qwen2.5-coder-1.5b"}
KV_TYPES = ["f16", "bf16", "fp8", "int8", "int4", "int4-k4"]
PEER_KV_TYPES = {"f16": "f16", "bf16": "bf16", "int8": "q8_0", "int4": "q4_0"}  # the peer's cache of about the same bytes
SHORT_PROMPT_TOKENS = 60


def golden_rows(name):
    path = figures.ROOT / f"tests/data/golden/greedy_{GOLDEN[name]}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def scores(path, kernels, rows, kv_type, folder):
    """(summed prompt log-loss, log-probabilities of all continuation tokens)"""
    input_file = pathlib.Path(folder) / "rows.jsonl"
    lines = [json.dumps({"prompt_ids": row["prompt_ids"], "continuation_ids": row["greedy_ids"]}) for row in rows]
    input_file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    output, _ = figures.run([figures.KVPAGE, "score", "--model", path, "--kernels", kernels, "--kv-type", kv_type, "--progress", "none",
                             "--input", input_file])
    scored = [json.loads(line) for line in output.splitlines()]
    return sum(row["prompt_nll"] for row in scored), [token["logprob"] for row in scored for token in row["continuation"]]


def mean_difference(a, b):
    return sum(abs(x - y) for x, y in zip(a, b, strict=True)) / len(a)


def measure_in_use(name, path, rows, peer, kv_types, folder):
    golden = [logprob for row in rows for logprob, _ in row["greedy_logprob_and_margin"]]
    golden_nll = sum(row["prompt_nll"] for row in rows)
    for kv_type in kv_types:
        nll, logprobs = scores(path, "cpu", rows, kv_type, folder)
        peer_type, peer_error = PEER_KV_TYPES.get(kv_type), None
        if peer and peer_type:
            peer_error = mean_difference(golden, llama_score.logprobs(peer, path, peer_type, rows))
        figures.figure(f"quality.error.{figures.label(name)}.{kv_type}", mean_difference(golden, logprobs), "nat",
                       f"llama.cpp {peer_type}", peer_error)
        figures.figure(f"quality.nll.{figures.label(name)}.{kv_type}", nll / golden_nll - 1, "fraction")


def measure_format_alone(name, path, rows, kv_types, folder):
    short = [row for row in rows if len(row["prompt_ids"]) <= SHORT_PROMPT_TOKENS]
    exact_nll, exact = scores(path, "reference", short, "f32", folder)
    for kv_type in kv_types:
        nll, logprobs = scores(path, "reference", short, kv_type, folder)
        figures.figure(f"quality.float.kv_nll.{figures.label(name)}.{kv_type}", nll / exact_nll - 1, "fraction")
        figures.figure(f"quality.float.kv_logprob.{figures.label(name)}.{kv_type}", mean_difference(exact, logprobs), "nat")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--float-activations", action="store_true", help="measure the KV formats with the reference kernels")
    parser.add_argument("--models", default=",".join(GOLDEN), help="some of " + ",".join(GOLDEN))
    parser.add_argument("--kv-types", default=",".join(KV_TYPES), help="some of f32," + ",".join(KV_TYPES))
    options = parser.parse_args()
    figures.describe_machine()
    peer = None if options.float_activations else figures.Llama.find()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models.split(","):
            path = figures.model(name)
            if path is None:
                continue
            if options.float_activations:
                measure_format_alone(name, path, golden_rows(name), options.kv_types.split(","), folder)
            else:
                measure_in_use(name, path, golden_rows(name), peer, options.kv_types.split(","), folder)
    figures.note(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
