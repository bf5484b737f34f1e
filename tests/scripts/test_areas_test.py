#!/usr/bin/env python3
"""tools/test.sh --night AREA: what is refused before anything is built, and that every folder of tests can be asked for."""

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_sh(*arguments):
    return subprocess.run(["bash", ROOT / "tools/test.sh", *arguments], capture_output=True, text=True, timeout=60, check=False)


class Areas(unittest.TestCase):
    def test_help_lists_every_folder_that_has_tests(self):
        done = test_sh("--help")
        self.assertEqual(done.returncode, 0)
        listed = re.search(r"^areas: (.*)$", done.stdout, re.MULTILINE)[1].split()
        wanted = sorted(path.parent.relative_to(ROOT / "tests").as_posix() for path in (ROOT / "tests").rglob("CMakeLists.txt")
                        if "add_test(" in path.read_text(encoding="utf-8"))
        self.assertEqual(sorted(set(wanted) - set(listed)), [])

    def test_unknown_areas_are_refused_with_the_list(self):
        for area in ("nosuch", "sched quant", "", "tests/sched", "kernels", "."):
            done = test_sh("--night", area)
            self.assertEqual((area, done.returncode, done.stdout), (area, 2, ""))
            self.assertIn(f'no area "{area}"', done.stderr)
            self.assertIn(" sched ", done.stderr)
            self.assertIn(" kernels/gemm ", done.stderr)

    def test_an_area_needs_night(self):
        for arguments in (("sched",), ("--night", "sched", "quant")):
            done = test_sh(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn("usage: tools/test.sh [--night [AREA]]", done.stderr)


if __name__ == "__main__":
    unittest.main()
