#!/usr/bin/env python3
"""Group tokenize: bytes per second in process, and of `kvpage tokenize` against llama-tokenize on the same text.

The two programs load a model and print the ids; the rate is that of a long text minus a short one, so that loading drops out.
"""

import pathlib
import tempfile

import figures

ROUNDS = 3
TEXT_BYTES = 2_000_000


def main():
    figures.describe_machine()
    llama = figures.Llama.find()
    models = {name: path for name in ("smollm2", "gemma3", "qwen0.5b") if (path := figures.model(name))}
    with tempfile.TemporaryDirectory() as work:
        text, short = pathlib.Path(work, "text.txt"), pathlib.Path(work, "short.txt")
        output, _ = figures.run([figures.PROGRAMS / "tokenize_bench", "--bytes", TEXT_BYTES, "--write-text", text,
                                 *(f"{figures.label(name)}={path}" for name, path in models.items())])
        print(output, end="", flush=True)
        short.write_text("short\n", encoding="utf-8")
        num_bytes = text.stat().st_size - short.stat().st_size
        for name, path in models.items():
            measure(name, path, llama, text, short, num_bytes)


def measure(name, path, llama, text, short, num_bytes):
    def ours(show):
        return difference(lambda file, s: figures.run([figures.KVPAGE, "tokenize", "--model", path, "--file", file], show=s)[1], show)

    def peer(show):
        return difference(lambda file, s: llama.run("tokenize", "-m", path, "-f", file, "--ids", "--no-bos", "--no-parse-special",
                                                    "--log-disable", show=s)[1], show)

    def difference(seconds, show):
        return max(seconds(text, show) - seconds(short, False), 1e-9)

    result = figures.interleaved(ROUNDS, **({"kvpage": ours} | ({"llama": peer} if llama else {})))
    peer_rate = num_bytes / result["llama"] if llama else None
    figures.figure(f"tokenize.program.{figures.label(name)}", num_bytes / result["kvpage"], "B/s", "llama.cpp llama-tokenize", peer_rate)


if __name__ == "__main__":
    main()
