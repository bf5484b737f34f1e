"""The measurements of group cpu: each class is one peer, or kvpage, on one file."""

import json
import random

import figures
from support import llama as llama_cpp
from support.llama import DEFAULT, SPIN, Settings
from support.rounds import fastest

PROMPT, GENERATED, DEPTH = 512, 128, 4096
BATCHES, BATCH_PROMPT, BATCH_GENERATED = (16, 32), 128, 64
REQUEST_WORDS, REQUEST_TOKENS = 150, 64
VOCABULARY = 32_000  # ids below are text in every model here
WORDS = ("a of to in and that was his he it with is for as had you not be on at by which have or from this him but all she they were my "
         "are me one their so an said them we who would been will no when there if more out up into do any your what has man could").split()


def random_ids(count, seed):
    draw = random.Random(seed)
    return [draw.randrange(1000, VOCABULARY) for _ in range(count)]


def request_text(number, words=REQUEST_WORDS):
    draw = random.Random(number)
    return f"Letter {number}: " + " ".join(draw.choice(WORDS) for _ in range(words))


def write_requests(folder):
    """{number of requests: file of them}, the texts that OpenVino.requests asks with"""
    files = {}
    for number in BATCHES:
        files[number] = folder / f"requests{number}.jsonl"
        lines = [json.dumps({"id": index, "prompt": request_text(index), "max_tokens": REQUEST_TOKENS, "ignore_eos": True})
                 for index in range(number)]
        files[number].write_text("\n".join(lines) + "\n", encoding="utf-8")
    return files


class Ours:
    """kvpage on one file."""

    def __init__(self, path):
        self.path = path

    def _bench(self, *arguments, show):
        return figures.kvpage_bench(self.path, "--threads", figures.cores(), *arguments, show=show)

    def prefill(self, show, depth=0, kv_type="f16"):
        return PROMPT / self._bench("--prompt-tokens", PROMPT, "--gen", 0, "--depth", depth, "--kv-type", kv_type, show=show)["prefill_s"]

    def decode(self, show, depth=0, kv_type="f16"):
        """As llama-bench does: from an empty cache, or one that holds `depth` positions."""
        answer = self._bench("--prompt-tokens", 1, "--gen", GENERATED + 1, "--depth", depth, "--kv-type", kv_type, show=show)
        return answer["decode_steps"] / answer["decode_s"]

    def single(self, show):
        return {"prefill": self.prefill(show), "decode": self.decode(show)}

    def long(self, show):
        return {"prefill": self.prefill(show, DEPTH), "prefill_int8": self.prefill(show, DEPTH, "int8"),
                "decode": self.decode(show, DEPTH), "decode_int8": self.decode(show, DEPTH, "int8")}

    def batched(self, show):
        return {batch: self._bench("--batch", batch, "--prompt-tokens", BATCH_PROMPT, "--gen", BATCH_GENERATED,
                                   show=show)["decode_tokens_per_s"] for batch in BATCHES}

    def requests(self, files, show):
        """`files`: {number of requests: file}; output tokens per second, prefill included."""
        rates = {}
        for number, file in files.items():
            report = self._bench("--requests", file, "--max-seqs", number, "--no-prefix-cache", show=show)
            rates[number] = number * REQUEST_TOKENS / report["totals"]["wall_s"]
        return rates

    def first_token(self, show, *arguments):
        _, seconds = figures.run([figures.KVPAGE, "run", "--model", self.path, "--threads", figures.cores(), "--raw", "--prompt", "Hello",
                                  "--max-tokens", 1, "--progress", "none", *arguments], show=show)
        return {"s": seconds}

    def profile(self, phase, *arguments):
        """Operations of a step of `phase`, "prefill" or "decode", as `kvpage bench` lists them."""
        return self._bench(*arguments, "--profile", show=False)["profile"][phase]["operations"]

    def profile_of(self, metric):
        """Of the steps behind a figure: a prompt, one row, or a batch of rows; `metric` as the works name it."""
        if metric in BATCHES:
            return self.profile("decode", "--batch", metric, "--prompt-tokens", BATCH_PROMPT, "--gen", 9)
        if metric == "prefill":
            return self.profile("prefill", "--prompt-tokens", PROMPT, "--gen", 0)
        return self.profile("decode", "--prompt-tokens", 1, "--gen", 9)

    def bytes_per_token(self):
        """Of weights and cache that a decode step reads, as its profile lists them."""
        read = {"qkv", "o", "gate_up", "down", "logits", "attention"}
        return sum(row["bytes"] for row in self.profile_of("decode") if row["operation"] in read)


class Llama:
    """llama.cpp on one file, each figure with its best settings."""

    def __init__(self, programs, path):
        self.programs, self.path = programs, path

    @staticmethod
    def _best_of_each(variants, metrics, measure):
        """A side: each metric with the settings that are fastest for it. `measure(settings, show, metric)` gives its rate."""
        best = {metric: fastest(variants(metric), lambda settings, m=metric: measure(settings, True, m)) for metric in metrics}
        return lambda show: {metric: measure(best[metric], show, metric) for metric in metrics}

    def single(self):
        work = {"prefill": {"prompt": PROMPT}, "decode": {"generate": GENERATED}}
        variants = [Settings(spin, arguments) for arguments in ((), ("--repack", 0)) for spin in (SPIN, DEFAULT)]
        return self._best_of_each(lambda _: variants, work, lambda settings, show, metric:
                                  llama_cpp.bench(self.programs, self.path, settings, show, **work[metric])[metric])

    def batched(self, batches=BATCHES):
        variants = [Settings(spin, (kv,)) for kv in ("--no-kv-unified", "--kv-unified") for spin in (SPIN, DEFAULT)]
        return self._best_of_each(lambda _: variants, batches, lambda settings, show, batch:
                                  llama_cpp.batched(self.programs, self.path, settings, show, BATCH_PROMPT, BATCH_GENERATED, (batch,))[batch])

    def long(self):
        prompt, generate = {"prompt": PROMPT}, {"generate": GENERATED}
        work = {"prefill": prompt, "prefill_int8": prompt, "decode": generate, "decode_int8": generate}
        floats, codes = (), ("-ctk", "q8_0", "-ctv", "q8_0")

        def variants(metric):
            return [Settings(spin, cache) for cache in ((floats, codes) if metric.endswith("_int8") else (floats,)) for spin in (SPIN, DEFAULT)]

        def measure(settings, show, metric):
            return llama_cpp.bench(self.programs, self.path, settings, show, depth=DEPTH, **work[metric])[metric.removesuffix("_int8")]
        return self._best_of_each(variants, work, measure)

    def first_token(self):
        best = fastest([Settings(SPIN, arguments, program) for program, arguments in
                        (("bench", ()), ("bench", ("--repack", 0)), ("simple", ()))],
                       lambda settings: 1 / llama_cpp.first_token(self.programs, self.path, settings, True)["s"])
        return lambda show: llama_cpp.first_token(self.programs, self.path, best, show)


class OpenVino:
    """OpenVINO GenAI on one file; its pipeline stays loaded. `metrics`: of the work, those that are measured; None = all."""

    def __init__(self, pipeline, metrics=None):
        self.pipeline = pipeline
        self.metrics = metrics
        self.seed = 0

    def _ids(self, count):
        self.seed += 1
        return random_ids(count, self.seed)

    def _wanted(self, metrics):
        return [metric for metric in metrics if self.metrics is None or metric in self.metrics]

    def single(self, _show):
        self.pipeline.ask([self._ids(PROMPT)], 2)  # like the warm-up of llama-bench
        prefill = PROMPT / self.pipeline.ask([self._ids(PROMPT)], 2)["ttft_s"]
        return {"prefill": prefill, "decode": self.pipeline.ask([self._ids(1)], GENERATED + 1)["decode_tokens_per_s"]}

    def long(self, _show):
        """With a prefix cache: the second prompt begins with what the first one left there."""
        depth = random_ids(DEPTH, 0)
        self.pipeline.ask([depth], 1)
        rates = {}
        for metric in self._wanted(("prefill", "prefill_int8", "decode_int8")):
            if metric == "decode_int8":
                rates[metric] = self.pipeline.ask([depth + self._ids(1)], GENERATED + 1)["decode_tokens_per_s"]
            elif "prefill" not in rates:  # its cache has 8 bits: one measurement stands beside both of ours
                rates["prefill"] = rates["prefill_int8"] = PROMPT / self.pipeline.ask([depth + self._ids(PROMPT)], 2)["ttft_s"]
        return {metric: rate for metric, rate in rates.items() if metric in self._wanted(rates)}

    def requests(self, _show):
        rates = {}
        for number in self._wanted(BATCHES):
            texts = [request_text(index) for index in range(number)]
            rates[number] = number * REQUEST_TOKENS / self.pipeline.ask(texts, REQUEST_TOKENS)["seconds"]
        return rates

    def batched(self, _show):
        """Decode alone: the time of prompts and answers less that of the prompts and one token."""
        rates = {}
        for batch in self._wanted(BATCHES):
            self.seed += batch
            texts = [request_text(self.seed + index, BATCH_PROMPT - 4) for index in range(batch)]
            prefill_s = self.pipeline.ask(texts, 1)["seconds"]
            rates[batch] = batch * (BATCH_GENERATED - 1) / (self.pipeline.ask(texts, BATCH_GENERATED)["seconds"] - prefill_s)
        return rates
