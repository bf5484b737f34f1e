"""llama.cpp at its best: its bench programs with the settings that a user would try."""

import json
import typing

import figures

SPIN, DEFAULT = "2000", None


class Settings(typing.NamedTuple):
    """How to run one of its programs. `spin`: GOMP_SPINCOUNT; None = the default of its OpenMP library."""

    spin: str | None = SPIN
    arguments: tuple = ()
    program: str = ""

    def __str__(self):
        words = [self.program, "" if self.spin is None else f"GOMP_SPINCOUNT={self.spin}", *map(str, self.arguments)]
        return " ".join(filter(None, words)) or "default"


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def bench(llama, path, settings, show, prompt=0, generate=0, depth=0):
    """{"prefill": tok/s, "decode": tok/s}, what was asked for. At a depth no warm-up: computing the depth is one."""
    output, _ = llama.run("bench", "-m", path, "-t", figures.cores(), "-fa", 1, "-p", prompt, "-n", generate, "-d", depth, "-r", 1,
                          *(["--no-warmup"] if depth else []), *settings.arguments, "-o", "jsonl", show=show, spin=settings.spin)
    return {"decode" if row["n_gen"] else "prefill": row["avg_ts"] for row in json_lines(output)}


def batched(llama, path, settings, show, prompt, generate, batches):
    """{batch: tok/s of decode}"""
    output, _ = llama.run("batched-bench", "-m", path, "-t", figures.cores(), "-fa", "on", "-c", max(batches) * (prompt + generate),
                          "-npp", prompt, "-ntg", generate, "-npl", ",".join(map(str, batches)), *settings.arguments,
                          "--output-format", "jsonl", show=show, spin=settings.spin)
    return {row["pl"]: row["speed_tg"] for row in json_lines(output)}


def first_token(llama, path, settings, show):
    """{"s": seconds from the start of a program to its end, one token later}"""
    arguments = {"bench": ["-m", path, "-t", figures.cores(), "-fa", 1, "-p", 0, "-n", 1, "-r", 1, "--no-warmup"],
                 "simple": ["-m", path, "-n", 1, "Hello"]}[settings.program]
    _, seconds = llama.run(settings.program, *arguments, *settings.arguments, show=show, spin=settings.spin)
    return {"s": seconds}


def requantized(llama, source, name, format_name):
    """Path of `source` in another format, made once beside the models, or None with a note when the peer is absent."""
    target = source.parent / "derived" / f"{source.name.split('.')[0]}.{format_name.upper()}.gguf"
    if target.is_file():
        return target
    if llama is None:
        figures.note(f"{name}-{format_name}: {target} is absent, llama-quantize of the peers makes it; its figures are left out")
        return None
    target.parent.mkdir(exist_ok=True)
    part = target.with_suffix(".part")
    llama.run("quantize", "--allow-requantize", source, part, format_name.upper(), figures.cores())
    part.rename(target)
    return target
