"""What every group of tools/bench.sh shares: figures, peers, interleaved rounds.

A figure is one JSON line on standard output; everything else goes to standard error. Units are base units: tok/s, B/s, s, nat;
fractions are 0..1. The ratio is >= 1 when kvpage is better: value / against for rates and ratios, against / value for times.
"""

import functools
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
KVPAGE = ROOT / "build/release/bin/kvpage"
PROGRAMS = ROOT / "build/release/bench"
MODEL_FILES = {line.split()[1]: line.split()[2] for line in (ROOT / "tools/model.lock").read_text(encoding="utf-8").splitlines()
               if line.startswith("model ")}
MAX_FOREIGN_SHARE = 0.2  # of the processors in one round: above, sides that wait for their threads in different ways cannot be compared
FORMATS = {"smollm2": "q4_1", "gemma3": "q4_k_m", "qwen0.5b": "q4_k_m", "qwen1.5b": "q4_k_m"}


def note(text):
    print(f"== {text}", file=sys.stderr, flush=True)


def better(value, against_value, unit):
    """How many times as good: above 1 when kvpage is better."""
    return value / against_value if unit.endswith("/s") or unit == "ratio" else against_value / value


def figure(name, value, unit, against=None, against_value=None):
    """Prints one line. `against` names the peer; its value must come from this very run."""
    ratio = better(value, against_value, unit) if against_value else None
    print(json.dumps({"figure": name, "value": value, "unit": unit, "against": against if against_value else None,
                      "against_value": against_value, "ratio": ratio}), flush=True)


def paired_figure(name, results, metric, unit, against=None, peer=None, peer_metric=None):
    """Prints one line of interleaved rounds (support/rounds.py) of the side kvpage: medians, and median and lower quartile of the ratios of
    the rounds to `peer`; (ratio, quartile). Without a ratio when others had too much of the machine."""
    values, others = results["kvpage"][metric], results.get(peer, {}).get(peer_metric or metric)
    line = {"figure": name, "value": statistics.median(values), "unit": unit, "against": None, "against_value": None, "ratio": None,
            "rounds": len(values), "foreign_share": round(results.foreign_share, 4)}
    if others:
        line |= {"against": against, "against_value": statistics.median(others)}
    if others and results.foreign_share > MAX_FOREIGN_SHARE:
        note(f"{name}: others took {100 * results.foreign_share:.0f} % of the processors in a round, above "
             f"{100 * MAX_FOREIGN_SHARE:.0f} %: no ratio")
    elif others:
        ratios = [better(value, other, unit) for value, other in zip(values, others, strict=True)]
        quartile = statistics.quantiles(ratios, n=4, method="inclusive")[0] if len(ratios) > 1 else ratios[0]
        line |= {"ratio": statistics.median(ratios), "ratio_lower_quartile": quartile}
    print(json.dumps(line), flush=True)
    return line["ratio"], line.get("ratio_lower_quartile")


def cores():
    return len(os.sched_getaffinity(0))


def describe_machine():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        name = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), "unknown processor")
    note(f"machine: {name}, {cores()} cores")


def model(name):
    """Path of a model that tools/fetch_model.sh has fetched, or None with a note."""
    folder = pathlib.Path(os.environ.get("KVPAGE_MODEL_DIR", pathlib.Path.home() / ".cache/kvpage/models"))
    path = folder / MODEL_FILES[name]
    if path.is_file():
        return path
    note(f"{name}: {path} is absent; tools/fetch_model.sh {name} fetches it; its figures are left out")
    return None


def label(name, format_name=None):
    """Model and format as figures name them, e.g. smollm2-q4_1."""
    return f"{name}-{format_name or FORMATS[name]}"


def run(command, env=None, show=True):
    """(standard output, seconds) of a command; a failure ends the group. A variable of `env` that is None is taken away."""
    changed = env or {}
    if show:
        words = [f"{name}={value}" for name, value in changed.items() if name != "LD_LIBRARY_PATH" and value is not None]
        note("$ " + " ".join([*words, shlex.join(map(str, command))]))
    variables = {name: value for name, value in {**os.environ, **changed}.items() if value is not None}
    started = time.perf_counter()
    done = subprocess.run([str(word) for word in command], env=variables, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        sys.exit(f"exit code {done.returncode}: {shlex.join(map(str, command))}\n{done.stderr[-2000:]}")
    return done.stdout, seconds


@functools.cache
def peers():
    """What tools/setup_peers.sh wrote, {} with a note when there is nothing: then there are no ratios."""
    folder = pathlib.Path(os.environ.get("KVPAGE_PEERS", pathlib.Path.home() / ".cache/kvpage/peers"))
    try:
        return json.loads((folder / "peers.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        note(f"no peers in {folder}; tools/setup_peers.sh puts them there; no ratios in this run")
        return {}


class Llama:
    """The programs of llama.cpp that tools/setup_peers.sh installed."""

    def __init__(self, folder):
        self.folder = folder

    @staticmethod
    def find():
        """The peer, or None with a note: then there is no ratio."""
        folder = peers().get("llama_bin")
        return Llama(folder) if folder else None

    def run(self, program, *arguments, show=True, spin=os.environ.get("GOMP_SPINCOUNT", "2000")):
        """`spin`: how often an idle worker looks for work before it sleeps; None = as it comes. On few cores workers that spin
        without a bound starve each other."""
        return run([f"{self.folder}/llama-{program}", *arguments], {"LD_LIBRARY_PATH": self.folder, "GOMP_SPINCOUNT": spin}, show)


def kvpage_bench(path, *arguments, show=True):
    """The JSON object of `kvpage bench`, plus the wall time of the process as "process_s"."""
    output, seconds = run([KVPAGE, "bench", "--model", path, *arguments, "--json"], show=show)
    return {**json.loads(output), "process_s": seconds}


def benchmark_figures(program, *arguments, repetitions=15):
    """Prints a line per benchmark of a Google Benchmark program (bench/ceiling_benchmark.hpp): its best repetition beside the ceiling."""
    output, _ = run([PROGRAMS / program, "--benchmark_format=json", f"--benchmark_repetitions={repetitions}", "--benchmark_min_time=0.05",
                     *arguments])
    best = {}
    for row in json.loads(output)["benchmarks"]:
        if row.get("error_occurred"):
            sys.exit(f"{row['name']}: {row['error_message']}")
        name = row["run_name"].removesuffix("/real_time")
        if row["run_type"] == "iteration" and (name not in best or row["rate"] > best[name]["rate"]):
            best[name] = row
    if not best:
        sys.exit(f"{program}: no benchmark has run")
    for name, row in best.items():
        unit, against = row["label"].split(" beside ")
        figure(name, row["rate"], unit, against, row["ceiling"])


def memory_rates():
    """{"read_1": B/s with one thread, "read_n": with all cores, "copy_n": bytes copied per second with all cores}."""
    output, _ = run([PROGRAMS / "memory_rate"])
    return json.loads(output)
