"""OpenVINO GenAI: a pipeline that stays loaded between rounds, in a process of its own."""

import json
import pathlib
import subprocess
import sys

import figures

DRIVER = pathlib.Path(__file__).with_name("openvino_driver.py")
PREFIX = []  # words before the command of the driver


class OpenVino:
    """The package that tools/setup_peers.sh installed."""

    def __init__(self, python):
        self.python = python

    @staticmethod
    def find():
        """The peer, or None with a note."""
        python = figures.peers().get("python")
        if python is None:
            return None
        found = subprocess.run([python, "-I", "-c", "import openvino_genai, numpy"], capture_output=True, text=True, check=False)
        if found.returncode == 0:
            return OpenVino(python)
        figures.note(f"OpenVINO GenAI cannot be loaded by {python}: {found.stderr.strip().splitlines()[-1]}; its figures are left out")
        return None

    def open(self, path, max_seqs=0, step_tokens=0, prefix_cache=False):
        """A Pipeline, or None with a note when it cannot read the file. `max_seqs`: of continuous batching, in steps of at most
        `step_tokens`; 0 = one by one."""
        pipeline = Pipeline([self.python, "-I", DRIVER, path, figures.cores(), max_seqs, step_tokens,
                             *(["prefix-cache"] if prefix_cache else [])])
        if pipeline.error is None:
            return pipeline
        figures.note(f"OpenVINO GenAI does not run {path.name}: {pipeline.error}")
        pipeline.close()
        return None


class Pipeline:
    """A running driver. Use as a context manager, or close it."""

    def __init__(self, command):
        self.process = subprocess.Popen([*PREFIX, *map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        self.error = json.loads(line).get("error") if line else "its process ended while it loaded"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.process.stdin.close()
        self.process.wait()

    def ask(self, prompts, max_tokens):
        """The answer of openvino_driver.py; a failure ends the group."""
        self.process.stdin.write(json.dumps({"prompts": prompts, "max_tokens": max_tokens}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"OpenVINO GenAI ended while it answered, exit code {self.process.wait()}")
        return json.loads(line)
