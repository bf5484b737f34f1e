"""What every group of tools/bench.sh shares: figures, peers, interleaved rounds.

A figure is one JSON line on standard output; everything else goes to standard error. Units are base units: tok/s, B/s, s, nat;
fractions are 0..1. The ratio is >= 1 when kvpage is better: value / against for rates and ratios, against / value for times.
"""

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
FORMATS = {"smollm2": "q4_1", "gemma3": "q4_k_m", "qwen0.5b": "q4_k_m", "qwen1.5b": "q4_k_m"}


def note(text):
    print(f"== {text}", file=sys.stderr, flush=True)


def figure(name, value, unit, against=None, against_value=None):
    """Prints one line. `against` names the peer; its value must come from this very run."""
    ratio = None
    if against_value:
        ratio = value / against_value if unit.endswith("/s") or unit == "ratio" else against_value / value
    print(json.dumps({"figure": name, "value": value, "unit": unit, "against": against if against_value else None,
                      "against_value": against_value, "ratio": ratio}), flush=True)


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


def label(name):
    """Model and format as figures name them, e.g. smollm2-q4_1."""
    return f"{name}-{FORMATS[name]}"


def run(command, env=None, show=True):
    """(standard output, seconds) of a command; a failure ends the group."""
    if show:
        note("$ " + " ".join([f"{k}={v}" for k, v in (env or {}).items() if k != "LD_LIBRARY_PATH"] + [shlex.join(map(str, command))]))
    started = time.perf_counter()
    done = subprocess.run([str(word) for word in command], env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        sys.exit(f"exit code {done.returncode}: {shlex.join(map(str, command))}\n{done.stderr[-2000:]}")
    return done.stdout, seconds


class Llama:
    """The programs of llama.cpp that tools/setup_peers.sh installed."""

    def __init__(self, folder):
        self.folder = folder

    @staticmethod
    def find():
        """The peer, or None with a note: then there is no ratio."""
        folder = pathlib.Path(os.environ.get("KVPAGE_PEERS", pathlib.Path.home() / ".cache/kvpage/peers"))
        try:
            return Llama(json.loads((folder / "peers.json").read_text(encoding="utf-8"))["llama_bin"])
        except FileNotFoundError:
            note(f"no peers in {folder}; tools/setup_peers.sh puts them there; no ratios in this run")
            return None

    def run(self, program, *arguments, show=True):
        # Its workers spin; on few cores they starve each other unless the spinning is bounded.
        return run([f"{self.folder}/llama-{program}", *arguments],
                   {"LD_LIBRARY_PATH": self.folder, "GOMP_SPINCOUNT": os.environ.get("GOMP_SPINCOUNT", "2000")}, show)


def interleaved(rounds, **measurements):
    """Calls each measurement once per round, in turn; {name: median of what it returned (a number or a tuple of numbers)}."""
    results = {name: [] for name in measurements}
    for number in range(rounds):
        for name, measure in measurements.items():
            results[name].append(measure(number == 0))
    return {name: median(values) for name, values in results.items()}


def median(values):
    if isinstance(values[0], tuple):
        return tuple(statistics.median(column) for column in zip(*values))
    return statistics.median(values)


def kvpage_bench(path, *arguments, show=True):
    """The JSON object of `kvpage bench`, plus the wall time of the process as "process_s"."""
    output, seconds = run([KVPAGE, "bench", "--model", path, *arguments, "--json"], show=show)
    return {**json.loads(output), "process_s": seconds}


def memory_rates():
    """{"read_1": B/s with one thread, "read_n": with all cores, "copy_n": bytes copied per second with all cores}."""
    output, _ = run([PROGRAMS / "memory_rate"])
    return json.loads(output)
