#!/usr/bin/env python3
"""Group sched: what a step of the scheduler costs, model-free, and how fast the simulator runs. Times are per running sequence
(plan_commit_*) or per step (waiting_*)."""

import json

import figures

SCALE = {"us/sequence": (1e-6, "s"), "ms/step": (1e-3, "s")}


def main():
    figures.describe_machine()
    output, _ = figures.run([figures.PROGRAMS / "sched_plan_bench"])
    for line in output.splitlines():
        row = json.loads(line)
        scale, unit = SCALE.get(row["unit"], (1, row["unit"]))
        figures.figure(row["figure"], row["value"] * scale, unit)


if __name__ == "__main__":
    main()
