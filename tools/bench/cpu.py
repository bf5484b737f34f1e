#!/usr/bin/env python3
"""Group cpu: kvpage end to end against llama.cpp and OpenVINO GenAI, same file, same tokens, all cores, in interleaved rounds.

Figures are cpu.WORK.MODEL-FORMAT; against OpenVINO, where it reads the file, the same with .openvino appended:
  prefill512, decode1                           six files
  decode16, decode32                            SmolLM2 Q4_1, Q4_0: 128 + 64 tokens, decode alone
  requests16, requests32 (.openvino only)       SmolLM2 Q4_1: 150-word prompts + 64 tokens, prefill included
  decode1_ctx4096, prefill512_depth4096, and _int8 of both       SmolLM2 Q4_0
  load, load_cached                             SmolLM2 Q4_1: start of the process to the end of its first token
A line has medians, the median of the rounds' ratios, and their lower quartile. Notes on standard error say what is wanted.
docs/benchmarks.md explains how both sides are measured. Estimated at 55 minutes on 2 cores with the peers.
"""

import argparse
import contextlib
import json
import pathlib
import tempfile

import figures
from support import llama as llama_cpp
from support.cpu_report import report, report_openvino, say_memory_share, say_where_time_goes
from support.cpu_work import BATCHES, Llama, OpenVino, Ours, write_requests
from support.openvino import OpenVino as OpenVinoPackage
from support.rounds import Rounds

OPENVINO_STEP_TOKENS = (256, 512, 1024, 2048)
FILES = [("smollm2", "q4_1"), ("smollm2", "q4_0"), ("smollm2", "q8_0"), ("gemma3", "q4_k_m"), ("qwen0.5b", "q4_k_m"), ("qwen1.5b", "q4_k_m")]


class Group:
    """The peers that there are, and the rounds."""

    def __init__(self, rounds):
        self.programs = figures.Llama.find()
        self.openvino = OpenVinoPackage.find()
        self.rounds = Rounds(rounds)
        say_ceilings()

    def path(self, name, format_name):
        """The file, made of SmolLM2's where no model is published; None with a note."""
        path = figures.model(name)
        if path is None or figures.FORMATS[name] == format_name:
            return path
        return llama_cpp.requantized(self.programs, path, name, format_name)

    def measure(self, path, work, ours, beside=None, **pipeline):
        """Sides of one work: `ours`, the method `work` of Llama, that of OpenVino when `pipeline` asks for one, and what is `beside` them."""
        with contextlib.ExitStack() as stack:
            sides, servers = {"kvpage": ours} | (beside or {}), []
            if self.programs and hasattr(Llama, work):
                sides["llama"] = getattr(Llama(self.programs, path), work)()
            if self.openvino and pipeline:
                parts = self.open_best(stack, path, work, pipeline)
                servers += [part.pipeline.process.pid for part in parts]
                if parts:
                    sides["openvino"] = lambda show: {metric: rate for part in parts for metric, rate in getattr(part, work)(show).items()}
            return self.rounds.measure(sides, servers)

    def open_best(self, stack, path, work, pipeline):
        """Open pipelines, each with the metrics for which its number of batched tokens is the fastest one; warm."""
        rates = {}
        sizes = OPENVINO_STEP_TOKENS if pipeline["max_seqs"] else (0,)
        for step_tokens in sizes if len(sizes) > 1 else ():
            opened = self.openvino.open(path, step_tokens=step_tokens, **pipeline)
            if opened is None:
                return []
            with opened:
                getattr(OpenVino(opened), work)(False)
                for metric, rate in getattr(OpenVino(opened), work)(False).items():
                    rates.setdefault(metric, {})[step_tokens] = rate
        best = {metric: max(tried, key=tried.get) for metric, tried in rates.items()}
        for metric, tried in rates.items():
            figures.note(f"OpenVINO GenAI, {work} {metric}, tokens per step: {', '.join(f'{n}: {rate:.4g}' for n, rate in tried.items())}")
        parts = []
        for step_tokens in sorted(set(best.values())) or sizes:
            opened = self.openvino.open(path, step_tokens=step_tokens, **pipeline)
            if opened is None:
                return []
            stack.enter_context(opened)
            parts.append(OpenVino(opened, [metric for metric in best if best[metric] == step_tokens] or None))
            getattr(parts[-1], work)(False)  # its first answers take longer
        return parts


def say_ceilings():
    """Notes. The memory rate swings with the host's other guests, so `single` measures it in every round."""
    output, _ = figures.run([figures.PROGRAMS / "ceilings"])
    for line in map(json.loads, output.splitlines()):
        figures.note(f"ceilings, {line['isa']}, {line['threads']} threads: {line['code_macs'] / 1e9:.0f} GMAC/s of byte dots, "
                     f"{line['float_macs'] / 1e9:.0f} GMAC/s of float multiply-adds")
    memory = figures.memory_rates()
    figures.note(f"memory reads: {memory['read_1'] / 1e9:.1f} GB/s by 1 thread, {memory['read_n'] / 1e9:.1f} by {figures.cores()}; "
                 f"8 streams per thread: {memory['streams_1'] / 1e9:.1f} and {memory['streams_n'] / 1e9:.1f} GB/s")


def report_both(path, figure, results, metric):
    """Against llama.cpp and OpenVINO; where the time goes when one of them is missed."""
    missed = report(figure, results, metric, "tok/s")
    if report_openvino(figure, results, metric) or missed:
        say_where_time_goes(figure, Ours(path).profile_of(metric))


def memory_rate(_show):
    """The rate at which all threads read memory."""
    memory = figures.memory_rates()
    return {"read": max(memory["read_n"], memory["streams_n"])}


def single(group):
    for name, format_name in FILES:
        path = group.path(name, format_name)
        if path is None:
            continue
        label = figures.label(name, format_name)
        results = group.measure(path, "single", Ours(path).single, {"memory": memory_rate}, max_seqs=0)
        for metric, figure in (("prefill", f"prefill512.{label}"), ("decode", f"decode1.{label}")):
            report_both(path, figure, results, metric)
        say_memory_share(label, results["kvpage"]["decode"], Ours(path).bytes_per_token(), results["memory"]["read"])


def batched(group):
    for name, format_name in FILES[:2]:
        path = group.path(name, format_name)
        if path is None:
            continue
        results = group.measure(path, "batched", Ours(path).batched, max_seqs=max(BATCHES))
        for batch in BATCHES:
            report_both(path, f"decode{batch}.{figures.label(name, format_name)}", results, batch)


def requests(group):
    """Only OpenVINO answers whole requests in process."""
    path = group.path(*FILES[0])
    if path is None or group.openvino is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        files = write_requests(pathlib.Path(folder))
        results = group.measure(path, "requests", lambda show: Ours(path).requests(files, show), max_seqs=max(BATCHES))
    for batch in BATCHES:
        report_openvino(f"requests{batch}.{figures.label(*FILES[0])}", results, batch)


def long(group):
    path = group.path(*FILES[1])
    if path is None:
        return
    results = group.measure(path, "long", Ours(path).long, max_seqs=1, prefix_cache=True)
    for metric, work in (("decode", "decode1_ctx4096"), ("decode_int8", "decode1_ctx4096_int8"), ("prefill", "prefill512_depth4096"),
                         ("prefill_int8", "prefill512_depth4096_int8")):
        report(f"{work}.{figures.label(*FILES[1])}", results, metric, "tok/s")
        report_openvino(f"{work}.{figures.label(*FILES[1])}", results, metric)


def load(group):
    path = group.path(*FILES[0])
    if path is None:
        return
    results = group.measure(path, "first_token", Ours(path).first_token)
    report(f"load.{figures.label(*FILES[0])}", results, "s", "s")
    with tempfile.TemporaryDirectory() as folder:
        cache = ("--packed-cache", folder)
        Ours(path).first_token(True, *cache)  # writes the file
        results = group.measure(path, "first_token", lambda show: Ours(path).first_token(show, *cache))
    report(f"load_cached.{figures.label(*FILES[0])}", results, "s", "s")


WORKS = {"single": single, "batched": batched, "requests": requests, "long": long, "load": load}


def main():
    parser = argparse.ArgumentParser(prog="tools/bench.sh cpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=list(WORKS), default=list(WORKS), help="works of this run; default: all")
    options = parser.parse_args()
    figures.describe_machine()
    group = Group(options.rounds)
    for name, work in WORKS.items():
        if name in options.only:
            work(group)


if __name__ == "__main__":
    main()
