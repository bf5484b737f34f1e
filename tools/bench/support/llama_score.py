"""Log-probabilities that llama.cpp gives to the golden answers, token by token, the golden ids fed."""

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request

import figures

NUM_PROBS = 50  # most probable ids that are told; the golden one is nearly always the first or second
START_SECONDS = 300


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def post(port, path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)


def wait_until_ready(server, port):
    for _ in range(START_SECONDS * 5):
        if server.poll() is not None:
            raise SystemExit(f"llama-server ended with exit code {server.returncode}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.2)
    raise SystemExit(f"llama-server was not ready within {START_SECONDS} s")


def next_logprob(port, ids, token, sampled):
    """Log-probability of `token` after `ids`; the peer keeps what it has computed of `ids` before.

    An end token or a part of a character would come without probabilities. So it is made to draw the plain letter `sampled`; the
    probabilities are those of the logits before that.
    """
    answer = post(port, "/completion", {"prompt": ids, "n_predict": 1, "n_probs": NUM_PROBS, "cache_prompt": True, "temperature": 0.0,
                                        "logit_bias": [[sampled, 1e9]]})
    listed = answer["completion_probabilities"][0]["top_logprobs"]
    # An id that is not listed is less probable than all that are: taking the last of them flatters the peer.
    return next((entry["logprob"] for entry in listed if entry["id"] == token), listed[-1]["logprob"])


def logprobs(peer, path, kv_type, rows):
    """[sum of greedy_ids over rows], in the order of the rows."""
    port = free_port()
    command = [f"{peer.folder}/llama-server", "--model", str(path), "--host", "127.0.0.1", "--port", str(port), "--ctx-size", "1024",
               "--parallel", "1", "--threads", str(figures.cores()), "--cache-type-k", kv_type, "--cache-type-v", kv_type,
               "--flash-attn", "on", "--no-webui"]
    figures.note("$ " + " ".join(command))
    env = {**os.environ, "LD_LIBRARY_PATH": peer.folder, "GOMP_SPINCOUNT": "2000"}
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_until_ready(server, port)
            letter = post(port, "/tokenize", {"content": "a", "add_special": False})["tokens"][-1]
            return [next_logprob(port, row["prompt_ids"] + row["greedy_ids"][:i], token, letter)
                    for row in rows for i, token in enumerate(row["greedy_ids"])]
        finally:
            server.terminate()
