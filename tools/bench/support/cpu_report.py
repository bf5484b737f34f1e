"""What group cpu wants of each figure, and the lines it prints."""

import statistics

import figures

LLAMA, OPENVINO = "llama.cpp", "OpenVINO GenAI"

# Times as fast as the peer, and words where the number depends on the machine.
WANTED = {
    "prefill512.smollm2-q4_1": (8, "6 on Ice Lake"), "prefill512.smollm2-q4_0": (2.3,), "prefill512.smollm2-q8_0": (4,),
    "prefill512.smollm2-q4_1.openvino": (1.15,), "prefill512.smollm2-q4_0.openvino": (1.15,), "prefill512.smollm2-q8_0.openvino": (1.15,),
    "prefill512.gemma3-q4_k_m": (2.6,), "prefill512.qwen0.5b-q4_k_m": (3.2,), "prefill512.qwen1.5b-q4_k_m": (2.3,),
    "decode1.smollm2-q4_1": (2.2,), "decode1.smollm2-q4_0": (1.8,), "decode1.smollm2-q8_0": (1.8,),
    "decode1.gemma3-q4_k_m": (1.8,), "decode1.qwen0.5b-q4_k_m": (1.6,), "decode1.qwen1.5b-q4_k_m": (1.12,),
    "decode16.smollm2-q4_1": (5,), "decode32.smollm2-q4_1": (6,), "decode16.smollm2-q4_0": (2.5,), "decode32.smollm2-q4_0": (2.3,),
    "requests16.smollm2-q4_1.openvino": (1.7,), "requests32.smollm2-q4_1.openvino": (1.7,),
    "decode1_ctx4096.smollm2-q4_0": (2.2,), "decode1_ctx4096_int8.smollm2-q4_0": (3,), "prefill512_depth4096.smollm2-q4_0": (2.5,),
    "prefill512_depth4096_int8.smollm2-q4_0.openvino": (1.15,),
    "load.smollm2-q4_1": (1,), "load_cached.smollm2-q4_1": (1,),
}
WANTED_SHARE = {"smollm2-q4_1": 0.75, "smollm2-q4_0": 0.75, "smollm2-q8_0": 0.75}


def verdict(value, wanted):
    return "met" if value >= wanted else "MISSED"


def say_ratio(name, against, ratio, quartile):
    """True when the figure misses what is wanted."""
    if ratio is None:
        return False
    text = f"cpu.{name}: {ratio:.3f} x {against}, lower quartile {quartile:.3f}"
    if name in WANTED:
        wanted, *words = WANTED[name]
        text += f"; wanted >= {wanted}{''.join(f' ({word})' for word in words)}: {verdict(ratio, wanted)}"
    figures.note(text)
    return name in WANTED and ratio < WANTED[name][0]


def report(name, results, metric, unit, peer="llama", peer_metric=None):
    """Prints the figure `name`: the line of the sides' `metric`, and a note with what is wanted; True when it is missed."""
    against = LLAMA if peer == "llama" else OPENVINO
    return say_ratio(name, against, *figures.paired_figure(f"cpu.{name}", results, metric, unit, against, peer, peer_metric))


def report_openvino(name, results, metric, unit="tok/s"):
    """The second line, only where OpenVINO ran."""
    return metric in results.get("openvino", {}) and report(f"{name}.openvino", results, metric, unit, "openvino")


def say_where_time_goes(name, operations):
    """Of a missed figure, a line for each operation of `kvpage bench --profile`: what it reads and computes beside what it takes."""
    for row in sorted(operations, key=lambda row: -row["ms"]):
        macs = row["code_macs"] + row["float_macs"]
        share = row["share_of_ceiling"]  # None: what no ceiling bounds, such as the time between launches
        figures.note(f"cpu.{name}, {row['operation']}: {row['ms']:.2f} ms, {row['bytes'] / 1e6:.2f} MB, {macs / 1e6:.1f} million "
                     f"multiply-adds{'' if share is None else f', {100 * share:.0f} % of the ceilings'}")


def say_memory_share(label, tokens_per_s, bytes_per_token, memory_rates):
    """Of both rates, one per round."""
    share = statistics.median(tokens * bytes_per_token / rate for tokens, rate in zip(tokens_per_s, memory_rates))
    text = f"cpu.decode1.{label}: {bytes_per_token / 1e6:.1f} MB per token, {100 * share:.1f} % of the rate at which all threads read memory"
    if label in WANTED_SHARE:
        text += f"; wanted >= {100 * WANTED_SHARE[label]:.0f} %: {verdict(share, WANTED_SHARE[label])}"
    figures.note(text)
