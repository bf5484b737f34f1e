#!/usr/bin/env python3
"""tools/count_results.py on results made here, and on a real ctest run with every outcome."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIP = 'sh -c "echo SKIPPED: no device; exit 77"'


class CountResults(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.work = pathlib.Path(scratch.name)

    def ctest(self, *entries):
        """Runs ctest over (name, command, labels) and leaves what tools/test.sh leaves."""
        text = "".join(f"add_test({name} {command})\nset_tests_properties({name} PROPERTIES SKIP_RETURN_CODE 77 LABELS \"{labels}\")\n"
                       for name, command, labels in entries)
        (self.work / "CTestTestfile.cmake").write_text(text)
        listing = subprocess.run(["ctest", "--test-dir", str(self.work), "--show-only=json-v1"], capture_output=True, text=True, check=True)
        (self.work / "tests.json").write_text(listing.stdout)
        subprocess.run(["ctest", "--test-dir", str(self.work), "--output-junit", str(self.work / "results.xml")],
                       capture_output=True, check=False)

    def count(self, night="0"):
        done = subprocess.run([sys.executable, "-B", str(ROOT / "tools/count_results.py"), str(self.work)],
                              env={**os.environ, "KVPAGE_NIGHT": night}, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines()

    def test_allowed_skips_pass(self):
        self.ctest(("a.ok", "true", "a"), ("a.gpu", SKIP, "a;cuda"), ("a.big", SKIP, "qwen1.5b"), ("a.isa", SKIP, "isa-avx2"))
        code, lines = self.count()
        self.assertEqual((code, lines[-1]), (0, "1 passed, 0 failed, 3 skipped"))
        self.assertIn("a.gpu: SKIPPED: no device", "\n".join(lines))

    def test_a_skip_without_an_allowed_label_fails(self):
        self.ctest(("a.ok", "true", "a"), ("a.skips", SKIP, "a;isa;nights;cuda2"))
        self.assertEqual((self.count()[0], self.count()[1][-1]), (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_skip_without_a_reason_fails(self):
        self.ctest(("a.skips", 'sh -c "exit 77"', "cuda"))
        self.assertEqual((self.count()[0], self.count()[1][-1]), (1, "0 passed, 1 failed, 0 skipped"))

    def test_night_may_skip_by_day_only(self):
        self.ctest(("a.long", SKIP, "night"))
        self.assertEqual(self.count()[1][-1], "0 passed, 0 failed, 1 skipped")
        self.assertEqual(self.count(night="1")[0], 1)

    def test_failures_and_programs_that_were_not_built_fail(self):
        self.ctest(("a.fails", "false", "cuda"), ("a.not_built", "/nowhere/program", "cuda"), ("a.ok", "true", ""))
        code, lines = self.count()
        self.assertEqual((code, lines[-1]), (1, "1 passed, 2 failed, 0 skipped"))

    def test_a_test_without_a_result_fails(self):
        self.ctest(("a.ok", "true", ""), ("b.lost", "true", ""))
        results = self.work / "results.xml"
        results.write_text(results.read_text().replace("b.lost", "a.ok"))
        self.assertEqual((self.count()[0], self.count()[1][-1]), (1, "1 passed, 1 failed, 0 skipped"))

    def test_no_test_at_all_fails(self):
        self.ctest(("a.ok", "true", ""))
        (self.work / "tests.json").write_text(json.dumps({"tests": []}))
        (self.work / "results.xml").write_text("<testsuite/>")
        self.assertNotEqual(self.count()[0], 0)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
