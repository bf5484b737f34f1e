#!/usr/bin/env python3
"""openvino_driver.py FILE THREADS MAX_SEQS STEP_TOKENS [prefix-cache]: OpenVINO GenAI behind standard input and output, in the Python of the peers.

One JSON line in, {"prompts": [text, ..] or [[id, ..], ..], "max_tokens": n}; one line out, {"seconds", "input_tokens", "ttft_s",
"decode_tokens_per_s"}. The first line out, {"load_s"} or {"error"}, says that the model is there. MAX_SEQS is that of continuous
batching, STEP_TOKENS the most tokens of one of its steps; MAX_SEQS 0 is the pipeline as it comes.
"""

import json
import os
import sys
import time

import numpy
import openvino
import openvino_genai

CACHE_GB = 4


def open_pipeline(file, threads, max_seqs, step_tokens, prefix_cache):
    properties = {"INFERENCE_NUM_THREADS": threads}
    if max_seqs:
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size, scheduler.max_num_seqs, scheduler.max_num_batched_tokens = CACHE_GB, max_seqs, step_tokens
        scheduler.enable_prefix_caching = prefix_cache
        properties["scheduler_config"] = scheduler
    return openvino_genai.LLMPipeline(file, "CPU", **properties)


def generation(max_tokens):
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens, config.ignore_eos, config.do_sample, config.apply_chat_template = max_tokens, True, False, False
    return config


def answer(pipeline, request):
    prompts = request["prompts"]
    if not isinstance(prompts[0], str):
        prompts = openvino.Tensor(numpy.array(prompts, dtype=numpy.int64))
    started = time.perf_counter()
    metrics = pipeline.generate(prompts, generation(request["max_tokens"])).perf_metrics
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "input_tokens": metrics.get_num_input_tokens(), "ttft_s": metrics.get_ttft().mean / 1000,
            "decode_tokens_per_s": metrics.get_throughput().mean if request["max_tokens"] > 1 else None}


def main():
    file, threads, max_seqs, step_tokens = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the library prints is no answer

    def say(what):
        print(json.dumps(what), file=answers, flush=True)

    started = time.perf_counter()
    try:
        pipeline = open_pipeline(file, threads, max_seqs, step_tokens, prefix_cache=len(sys.argv) > 5)
    except RuntimeError as error:
        say({"error": str(error).strip().splitlines()[-1]})
        return
    say({"load_s": time.perf_counter() - started})
    for line in sys.stdin:
        say(answer(pipeline, json.loads(line)))


if __name__ == "__main__":
    main()
