#!/usr/bin/env python3
"""Group quality: what 8-bit activations and each KV format cost in quality, on the golden rows, teacher-forced.

`quality.error.MODEL` is the mean error of a token's log-probability against the golden floats, with the default KV format.
`quality.kv_nll.MODEL.TYPE` is the change of the summed prompt log-loss, and `quality.kv_logprob.MODEL.TYPE` the mean change of a
token's log-probability, both against the same kernels with an f32 cache. With --float-activations the same two figures of the
kernels `reference`, named quality.float.*, on the rows with prompts of at most 60 tokens: the format alone, without the rounding
of activations on top. That takes about an hour.
"""

import argparse
import json
import pathlib
import tempfile

import figures

GOLDEN = {"smollm2": "smollm2", "gemma3": "gemma3", "qwen0.5b": "qwen2.5-coder-0.5b", "qwen1.5b": "qwen2.5-coder-1.5b"}
KV_TYPES = ["f16", "bf16", "fp8", "int8", "int4", "int4-k4"]
SHORT_PROMPT_TOKENS = 60


def golden_rows(name):
    path = figures.ROOT / f"tests/data/golden/greedy_{GOLDEN[name]}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def scores(path, kernels, input_file, kv_type):
    """(summed prompt log-loss, log-probabilities of all continuation tokens)"""
    output, _ = figures.run([figures.KVPAGE, "score", "--model", path, "--kernels", kernels, "--kv-type", kv_type, "--progress", "none",
                             "--input", input_file])
    rows = [json.loads(line) for line in output.splitlines()]
    return sum(row["prompt_nll"] for row in rows), [token["logprob"] for row in rows for token in row["continuation"]]


def mean_difference(a, b):
    return sum(abs(x - y) for x, y in zip(a, b, strict=True)) / len(a)


def measure(name, path, rows, kernels, prefix, folder):
    """The figures of one model; returns the log-probabilities by KV format."""
    input_file = folder / f"{name}.jsonl"
    lines = [json.dumps({"prompt_ids": row["prompt_ids"], "continuation_ids": row["greedy_ids"]}) for row in rows]
    input_file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    exact_nll, exact = scores(path, kernels, input_file, "f32")
    by_type = {}
    for kv_type in KV_TYPES:
        nll, by_type[kv_type] = scores(path, kernels, input_file, kv_type)
        figures.figure(f"{prefix}.kv_nll.{figures.label(name)}.{kv_type}", nll / exact_nll - 1, "fraction")
        figures.figure(f"{prefix}.kv_logprob.{figures.label(name)}.{kv_type}", mean_difference(exact, by_type[kv_type]), "nat")
    return by_type


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--float-activations", action="store_true", help="measure the KV formats with the reference kernels")
    float_activations = parser.parse_args().float_activations
    figures.describe_machine()
    with tempfile.TemporaryDirectory() as folder:
        for name in GOLDEN:
            path = figures.model(name)
            if path is None:
                continue
            rows = golden_rows(name)
            if float_activations:
                short = [row for row in rows if len(row["prompt_ids"]) <= SHORT_PROMPT_TOKENS]
                measure(name, path, short, "reference", "quality.float", pathlib.Path(folder))
                continue
            by_type = measure(name, path, rows, "cpu", "quality", pathlib.Path(folder))
            golden = [logprob for row in rows for logprob, _ in row["greedy_logprob_and_margin"]]
            figures.figure(f"quality.error.{figures.label(name)}", mean_difference(golden, by_type["f16"]), "nat")


if __name__ == "__main__":
    main()
