#!/usr/bin/env python3
"""Group sched: what a step of the scheduler costs, model-free, and how fast the simulator runs; then the engine: continuous batching
against static batching on the same engine, kernels, rows and budget, and the rate of a batch. plan_commit_* is per running sequence,
waiting_* per step: the slowest order and queue. `continuous_over_static` stands against the bound: what the library's scheduler reaches
on a virtual clock with the step times of the static runs. `continuous_over_padded` is the smaller of two: measured, where padding runs
as steps of its own, and computed, where it rides in the steps that are there anyway. `p99_continuous_over_static` is measured at a rate
that both keep up with; `..._saturated` at the rate of continuous batching, where the queue of static batching grows."""

import json
import math
import pathlib
import random
import statistics
import tempfile

import figures
from support.cpu_work import BATCH_GENERATED, BATCH_PROMPT, Llama
from support.rounds import Rounds

SCALE = {"us/sequence": (1e-6, "s"), "ms/step": (1e-3, "s")}
MODEL_FREE = {"sched." + name for name in ("plan_commit_256", "plan_commit_1024", "waiting_10000", "waiting_10000_p99", "sim_seeds",
                                           "continuous_over_static_sim")}
ROUNDS = 3
MAX_SEQS = 16
NUM_REQUESTS, BUDGET_TOKENS = 64, 512
# Every row costs on a processor, so prompts come in slivers while others wait for their next token.
NUM_ARRIVALS, ARRIVAL_BUDGET_TOKENS = 128, 20
VIRTUAL_SEEDS = 20  # runs on a virtual clock whose times are pooled: P99 of 128 requests is nearly their longest one
SUSTAINED = 0.8  # of what static batching does when all are there
BATCHES = (1, 4, 16, 32)


def log_uniform(draw, low, high):
    return round(low * math.exp(draw.random() * math.log(high / low)))


def write_requests(path, count, rate=None, seed=5):
    """Prompts of 16 to 512 tokens that share nothing, answers of 8 to 256; all at the start, or Poisson arrivals of `rate` per second."""
    draw = random.Random(seed)
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


def step_seconds(curve, rows):
    """On the straight line between two points of the curve, or on that through the last two."""
    right = next((i for i in range(1, len(curve)) if curve[i][0] >= rows), len(curve) - 1)
    (x0, y0), (x1, y1) = curve[right - 1], curve[right]
    return max(0.0, y0 + (y1 - y0) * (rows - x0) / (x1 - x0))


def padded_steps(requests):
    """Rows of each step of the textbook: MAX_SEQS prompts as long as the longest, then all rows until the longest answer has ended."""
    lines = [json.loads(line) for line in open(requests, encoding="utf-8")]
    steps = []
    for first in range(0, len(lines), MAX_SEQS):
        batch = lines[first:first + MAX_SEQS]
        prompts = len(batch) * max(len(line["prompt_ids"]) for line in batch)
        steps += [BUDGET_TOKENS] * (prompts // BUDGET_TOKENS) + [prompts % BUDGET_TOKENS] * (prompts % BUDGET_TOKENS > 0)
        steps += [len(batch)] * (max(line["max_tokens"] for line in batch) - 1)
    return steps


def over_padded(requests, curve, continuous_s, virtual_s, padded):
    """Two ways to pad; the figure is the smaller gain. `padded`: the report of the measured one, whose pad rows are steps of their own.
    `virtual_s`: continuous batching with the step times that the computed one has."""
    steps = padded_steps(requests)
    computed_s = sum(step_seconds(curve, rows) for rows in steps)
    rows = padded["totals"]["positions_computed"] + padded["totals"]["padded_rows"]
    figures.note(f"padded: {sum(steps)} rows in {len(steps)} steps take {computed_s:.2f} s by the step times of the static runs, "
                 f"{computed_s / continuous_s:.3f} x; measured with {rows} rows, padding in steps of its own: {wall(padded):.2f} s, "
                 f"{wall(padded) / continuous_s:.3f} x")
    figures.figure("sched.continuous_over_padded", min(computed_s, wall(padded)) / continuous_s, "ratio",
                   "both on a virtual clock with the measured step times", computed_s / virtual_s)


def throughput(path, requests):
    """All requests at the start."""
    reports = {batching: [] for batching in ("continuous", "static", "static-padded")}

    def measure(batching):
        def one(show):
            reports[batching].append(answer(path, requests, BUDGET_TOKENS, batching, show))
            return {"wall": wall(reports[batching][-1])}
        return one

    measure("static-padded")(True)
    results = Rounds(ROUNDS).measure({"continuous": measure("continuous"), "static": measure("static")})
    walls = {name: results.median(name, "wall") for name in results}
    if disturbed("continuous over static", results):
        return
    ids = [[request["output_ids"] for request in reports[batching][0]["requests"]] for batching in reports]
    if not ids[0] == ids[1] == ids[2]:
        raise SystemExit("an answer depends on how requests are batched")
    curve = curve_of([step for report in reports["static"] for step in report["steps"]])
    replays = {}
    for name in walls:
        replays[name] = replay(requests, curve, reports[name][0])
        same = [step[:2] for step in replays[name]["steps"]] == [step[:2] for step in reports[name][0]["steps"]]
        figures.note(f"{name}: {len(replays[name]['steps'])} steps, {'the same' if same else 'others'} on the virtual clock; "
                     f"{replays[name]['wall_s']:.2f} s there, {walls[name]:.2f} s measured")
    bound = replays["static"]["wall_s"] / replays["continuous"]["wall_s"]
    ratio = walls["static"] / walls["continuous"]
    figures.note(f"continuous over static: {ratio:.3f} of a bound of {bound:.3f}, a share of {ratio / bound:.3f}")
    figures.note("step time in ms by rows: " + ", ".join(f"{rows:g}: {1e3 * seconds:.1f}" for rows, seconds in curve))
    figures.figure("sched.continuous_over_static", ratio, "ratio", "bound by the simulator with the measured step times", bound)
    over_padded(requests, curve, walls["continuous"], replays["continuous"]["wall_s"], reports["static-padded"][0])


def p99(values):
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]


def virtual_gains(folder, curve, closed, rate):
    """The gains in P99 of more such requests through the library's scheduler on a virtual clock."""
    times = {batching: {"end_to_end_s": [], "ttft_s": []} for batching in closed}
    for seed in range(VIRTUAL_SEEDS):
        requests = write_requests(folder / "virtual.jsonl", NUM_ARRIVALS, rate, seed)
        for batching, report in closed.items():
            result = replay(requests, curve, report)
            for key, values in times[batching].items():
                values += result[key]
    return {key: p99(times["static"][key]) / p99(times["continuous"][key]) for key in times["static"]}


def disturbed(what, results):
    """True, with a note, when others had too much of the machine for a figure that is made of several measurements."""
    if results.foreign_share <= figures.MAX_FOREIGN_SHARE:
        return False
    figures.note(f"{what}: others took {100 * results.foreign_share:.0f} % of the processors in a round, above "
                 f"{100 * figures.MAX_FOREIGN_SHARE:.0f} %: no figure")
    return True


def measured_gains(path, requests, what):
    """P99 with static batching over P99 with continuous batching, to the end and to the first token; {} of a disturbed machine."""
    reports = {}

    def measure(batching):
        def one(show):
            reports[batching] = answer(path, requests, ARRIVAL_BUDGET_TOKENS, batching, show)
            return {"wall": wall(reports[batching])}
        return one

    if disturbed(what, Rounds(1).measure({"static": measure("static"), "continuous": measure("continuous")})):
        return {}
    totals = {batching: report["totals"] for batching, report in reports.items()}
    gains = {}
    for key in ("end_to_end_s", "ttft_s"):
        static, continuous = (totals[batching][key]["p99"] for batching in ("static", "continuous"))
        gains[key] = static / continuous
        figures.note(f"P99 of {key} {what}: static {static:.2f} s, continuous {continuous:.2f} s, a gain of {gains[key]:.3f}")
    return gains


def latency(path, folder, all_at_once):
    """Poisson arrivals at two rates. Each figure is the smaller gain of the two times, and both are given one by one."""
    closed = {batching: answer(path, all_at_once, ARRIVAL_BUDGET_TOKENS, batching, True) for batching in ("static", "continuous")}
    rates = {batching: NUM_REQUESTS / wall(report) for batching, report in closed.items()}
    curve = curve_of([step for report in closed.values() for step in report["steps"]])
    virtual_clock = f"{VIRTUAL_SEEDS * NUM_ARRIVALS} requests on a virtual clock with the measured step times"
    for name, rate, why in (("", SUSTAINED * rates["static"], f"{SUSTAINED} of what static batching does"),
                            ("_saturated", rates["continuous"], "all that continuous batching does")):
        requests = write_requests(folder / "arrivals.jsonl", NUM_ARRIVALS, rate)
        measured = measured_gains(path, requests, f"at {rate:.2f} requests/s ({why} with a budget of {ARRIVAL_BUDGET_TOKENS})")
        if not measured:
            continue
        virtual = virtual_gains(folder, curve, closed, rate)
        figure = "sched.p99_continuous_over_static" + name
        for key, gain in measured.items():
            figures.figure(f"{figure}.{key.removesuffix('_s')}", gain, "ratio", virtual_clock, virtual[key])
        figures.figure(figure, min(measured.values()), "ratio", virtual_clock, min(virtual.values()))


def batches(path, programs, name):
    """Decode alone, as `tools/bench.sh cpu --only batched` measures larger ones."""
    def ours(show):
        return {batch: figures.kvpage_bench(path, "--threads", figures.cores(), "--batch", batch, "--prompt-tokens", BATCH_PROMPT, "--gen",
                                            BATCH_GENERATED, show=show)["decode_tokens_per_s"] for batch in BATCHES}

    sides = {"kvpage": ours} | ({"llama": Llama(programs, path).batched(BATCHES)} if programs else {})
    results = Rounds(ROUNDS).measure(sides)
    for batch in BATCHES:
        figures.paired_figure(f"sched.batch{batch}.{figures.label(name)}", results, batch, "tok/s", "llama.cpp llama-batched-bench", "llama")


def main():
    figures.describe_machine()
    output, _ = figures.run([figures.PROGRAMS / "sched_plan_bench"])
    for line in output.splitlines():
        row = json.loads(line)
        scale, unit = SCALE.get(row["unit"], (1, row["unit"]))
        if row["figure"] in MODEL_FREE:
            figures.figure(row["figure"], row["value"] * scale, unit)
        else:
            more = ", ".join(f"{key} {value}" for key, value in row.items() if key not in ("figure", "value", "unit"))
            figures.note(f"{row['figure']}: {row['value']:.4g} {row['unit']}" + (f", {more}" if more else ""))
    name = "smollm2"
    path = figures.model(name)
    if path is None:
        raise SystemExit(1)
    batches(path, figures.Llama.find(), name)
    with tempfile.TemporaryDirectory() as folder:
        all_at_once = write_requests(pathlib.Path(folder) / "throughput.jsonl", NUM_REQUESTS)
        throughput(path, all_at_once)
        latency(path, pathlib.Path(folder), all_at_once)


if __name__ == "__main__":
    main()
