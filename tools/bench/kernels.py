#!/usr/bin/env python3
"""Group kernels: the packed kernels beside the ceilings of the same run. Needs neither peers nor models.

kernels.ceiling.ISA.{byte_dots,float_fma,memory}   what the machine does at most, all cores
kernels.gemm.ISA.FORMAT.mROWS        multiply-adds per second with weights in the cache, beside the ceiling of that instruction set
kernels.gemm.ISA.FORMAT.m1_memory    bytes of packed weights per second from memory, beside reads
kernels.attention_WORK.KVTYPE        decode in bytes of cache per second beside reads, prefill in multiply-adds per second
kernels.custom_{weight,weight_m1,kv,kv_prefill}.ISA    example 01's own formats beside the nearest shipped ones, one thread
"""

import json

import figures

EXAMPLE = figures.PROGRAMS.parent / "examples/01_custom_precision/kvpage_example_custom_precision"


def lines_of(*command):
    output, _ = figures.run(command)
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def print_lines(*command):
    for row in lines_of(*command):
        name = row["figure"].removeprefix("kernels.")
        against = None if row.get("against") == "itself" else row.get("against")
        figures.figure(f"kernels.{name}", row["value"], row["unit"], against, row.get("against_value") if against else None)


def main():
    figures.describe_machine()
    print_lines(figures.PROGRAMS / "kernels_gemm_bench", figures.cores())
    print_lines(figures.PROGRAMS / "kernels_attention", figures.cores())
    if EXAMPLE.is_file():
        print_lines(EXAMPLE, "--json")
    else:
        figures.note(f"{EXAMPLE} is absent; the figures kernels.custom_* are left out")


if __name__ == "__main__":
    main()
