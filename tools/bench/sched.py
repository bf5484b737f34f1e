#!/usr/bin/env python3
"""Group sched: what a step of the scheduler costs, model-free, and how fast the simulator runs; then the engine: continuous batching
against static batching on the same engine, kernels, rows and budget, and the rate of a batch. plan_commit_* is per running sequence,
waiting_* per step. `continuous_over_static` stands against the bound: what the library's scheduler reaches on a virtual clock with the
step times of the static runs."""

import json
import math
import pathlib
import random
import statistics
import tempfile

import figures

SCALE = {"us/sequence": (1e-6, "s"), "ms/step": (1e-3, "s")}
MODEL_FREE = {"sched." + name for name in ("plan_commit_256", "plan_commit_1024", "waiting_10000", "sim_seeds", "continuous_over_static_sim")}
ROUNDS = 3
MAX_SEQS = 16
NUM_REQUESTS, BUDGET_TOKENS = 64, 512
# Arrivals at the rate that continuous batching keeps up with when all are there. Every row costs on a processor, so prompts come in
# slivers: they do not stall the answers beside them.
NUM_ARRIVALS, ARRIVAL_BUDGET_TOKENS = 192, 32
BATCHES = (1, 4, 16, 32)
BATCH_PROMPT, BATCH_ANSWER = 128, 64


def log_uniform(draw, low, high):
    return round(low * math.exp(draw.random() * math.log(high / low)))


def write_requests(path, count, rate=None):
    """Prompts of 16 to 512 tokens that share nothing, answers of 8 to 256; all at the start, or Poisson arrivals of `rate` per second."""
    draw = random.Random(5)
    arrival_ms = 0.0
    with open(path, "w", encoding="utf-8") as file:
        for number in range(count):
            ids = [draw.randrange(1000, 40_000) for _ in range(log_uniform(draw, 16, 512))]
            request = {"id": number, "prompt_ids": ids, "max_tokens": log_uniform(draw, 8, 256), "ignore_eos": True, "temperature": 0}
            arrival_ms += draw.expovariate(1) * 1000
            if rate:
                request["arrival_ms"] = arrival_ms / rate
            file.write(json.dumps(request) + "\n")
    return path


def answer(path, requests, budget_tokens, batching, show):
    """The report of `kvpage bench --requests`. Every request must have got all its tokens."""
    report = figures.kvpage_bench(path, "--threads", figures.cores(), "--requests", requests, "--max-seqs", MAX_SEQS, "--budget-tokens",
                                  budget_tokens, "--batching", batching, "--steps", show=show)
    wanted = [json.loads(line)["max_tokens"] for line in open(requests, encoding="utf-8")]
    got = [len(request.get("output_ids", [])) for request in report["requests"]]
    if got != wanted:
        raise SystemExit(f"--batching {batching}: answers of other lengths than asked for")
    return report


def curve_of(steps):
    """Step time by rows: the median of each number of rows up to 16, above that of each quarter of a power of two."""
    bins = {}
    for rows, _, seconds in steps:
        bins.setdefault(rows if rows <= 16 else round(4 * math.log2(rows)) + 1000, []).append((rows, seconds))
    points = [(statistics.median(rows for rows, _ in of), statistics.median(seconds for _, seconds in of)) for of in bins.values()]
    return sorted(points)


def replay(requests, curve, report):
    """The same requests through the library's scheduler on a virtual clock, with the limits of the report."""
    curve_file = requests.with_name("curve.json")
    curve_file.write_text(json.dumps(curve), encoding="utf-8")
    output, _ = figures.run([figures.PROGRAMS / "sched_replay_bench", requests, curve_file, report["max_seqs"], report["budget_tokens"],
                             report["totals"]["num_blocks"], report["block_size"], report["batching"]], show=False)
    return json.loads(output)


def wall(report):
    return report["totals"]["wall_s"]


def throughput(path, folder):
    """All requests at the start. Returns the curve and the requests per second of continuous batching."""
    requests = write_requests(folder / "throughput.jsonl", NUM_REQUESTS)
    reports = {batching: [] for batching in ("continuous", "static", "static-padded")}

    def measure(batching):
        def one(show):
            reports[batching].append(answer(path, requests, BUDGET_TOKENS, batching, show))
            return wall(reports[batching][-1])
        return one

    walls = figures.interleaved(ROUNDS, **{batching: measure(batching) for batching in reports})
    ids = [[request["output_ids"] for request in reports[batching][0]["requests"]] for batching in reports]
    if not ids[0] == ids[1] == ids[2]:
        raise SystemExit("an answer depends on how requests are batched")
    curve = curve_of([step for report in reports["static"] for step in report["steps"]])
    replays = {}
    for name in ("static", "continuous"):
        replays[name] = replay(requests, curve, reports[name][0])
        same = [step[:2] for step in replays[name]["steps"]] == [step[:2] for step in reports[name][0]["steps"]]
        figures.note(f"{name}: {len(replays[name]['steps'])} steps, {'the same' if same else 'others'} on the virtual clock; "
                     f"{replays[name]['wall_s']:.2f} s there, {walls[name]:.2f} s measured")
    bound = replays["static"]["wall_s"] / replays["continuous"]["wall_s"]
    ratio = walls["static"] / walls["continuous"]
    figures.note(f"continuous over static: {ratio:.3f} of a bound of {bound:.3f}, a share of {ratio / bound:.3f}")
    figures.note("step time in ms by rows: " + ", ".join(f"{rows:g}: {1e3 * seconds:.1f}" for rows, seconds in curve))
    figures.figure("sched.continuous_over_static", ratio, "ratio", "bound by the simulator with the measured step times", bound)
    figures.figure("sched.continuous_over_padded", walls["static-padded"] / walls["continuous"], "ratio")
    return curve, NUM_REQUESTS / walls["continuous"]


def p99(values):
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]


def latency(path, folder, curve, rate):
    """Poisson arrivals: P99 of the time to the end and to the first token; the figure is the smaller of the two gains."""
    requests = write_requests(folder / "arrivals.jsonl", NUM_ARRIVALS, rate)
    reports = {}

    def measure(batching):
        def one(show):
            reports[batching] = answer(path, requests, ARRIVAL_BUDGET_TOKENS, batching, show)
            totals = reports[batching]["totals"]
            return totals["end_to_end_s"]["p99"], totals["ttft_s"]["p99"]
        return one

    result = figures.interleaved(max(1, ROUNDS - 1), static=measure("static"), continuous=measure("continuous"))
    replays = {batching: replay(requests, curve, report) for batching, report in reports.items()}
    gains = []
    for number, what in enumerate(("end_to_end_s", "ttft_s")):
        static, continuous = result["static"][number], result["continuous"][number]
        virtual = p99(replays["static"][what]) / p99(replays["continuous"][what])
        gains.append(static / continuous)
        figures.note(f"P99 of {what} at {rate:.2f} requests/s: static {static:.2f} s, continuous {continuous:.2f} s, "
                     f"a gain of {gains[-1]:.2f}; {virtual:.2f} on the virtual clock")
    figures.figure("sched.p99_continuous_over_static", min(gains), "ratio")


def batches(path, llama, name):
    def ours(batch):
        def one(show):
            return figures.kvpage_bench(path, "--threads", figures.cores(), "--batch", batch, "--prompt-tokens", BATCH_PROMPT, "--gen",
                                        BATCH_ANSWER, show=show)["decode_tokens_per_s"]
        return one

    def peer(show):
        output, _ = llama.run("batched-bench", "-m", path, "-t", figures.cores(), "-fa", "on", "-c", max(BATCHES) * (BATCH_PROMPT + BATCH_ANSWER),
                              "-npp", BATCH_PROMPT, "-ntg", BATCH_ANSWER, "-npl", ",".join(map(str, BATCHES)), "--output-format", "jsonl",
                              show=show)
        rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        return tuple(next(row["speed_tg"] for row in rows if row["pl"] == batch) for batch in BATCHES)

    measurements = {f"batch{batch}": ours(batch) for batch in BATCHES} | ({"llama": peer} if llama else {})
    result = figures.interleaved(ROUNDS, **measurements)
    for number, batch in enumerate(BATCHES):
        theirs = result["llama"][number] if llama else None
        figures.figure(f"sched.batch{batch}.{figures.label(name)}", result[f"batch{batch}"], "tok/s", "llama.cpp llama-batched-bench", theirs)


def main():
    figures.describe_machine()
    output, _ = figures.run([figures.PROGRAMS / "sched_plan_bench"])
    for line in output.splitlines():
        row = json.loads(line)
        scale, unit = SCALE.get(row["unit"], (1, row["unit"]))
        if row["figure"] in MODEL_FREE:
            figures.figure(row["figure"], row["value"] * scale, unit)
        else:
            figures.note(f"{row['figure']}: {row['value']:.4g} {row['unit']}")
    name = "smollm2"
    path = figures.model(name)
    if path is None:
        raise SystemExit(1)
    batches(path, figures.Llama.find(), name)
    with tempfile.TemporaryDirectory() as folder:
        curve, rate = throughput(path, pathlib.Path(folder))
        latency(path, pathlib.Path(folder), curve, rate)


if __name__ == "__main__":
    main()
