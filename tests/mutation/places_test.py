#!/usr/bin/env python3
"""places.py: what is mutated in a line, and what the mutant says."""

import pathlib
import tempfile
import unittest

import places


def mutants(line):
    """[(what changes, the line with mutant 7)]"""
    return [(change, line[:start] + text.format(number=7) + line[end:]) for start, end, change, text in places.edits(line)]


class Edits(unittest.TestCase):
    def test_comparison_number_and_operand(self):
        self.assertEqual(mutants("if (a.b < end) return 3;"), [
            ("< becomes <=", "if (a.b < kvpage_mutation::Less{7} < end) return 3;"),
            ("end becomes less", "if (a.b < kvpage_mutation::less<7>(end)) return 3;"),
            ("end becomes more", "if (a.b < kvpage_mutation::more<7>(end)) return 3;"),
            ("3 becomes more", "if (a.b < end) return kvpage_mutation::more<7>(3);"),
        ])

    def test_equality_and_calls(self):
        changes = [change for change, _ in mutants("x = y - sizes.count() != 1.5f ? a : nullptr;")]
        self.assertEqual(changes, ["sizes.count() becomes less", "sizes.count() becomes more", "!= becomes ==", "1.5f becomes more"])

    def test_compile_time_and_checks_stay(self):
        for line in ("static_assert(a < 1);", "template <int N = 3>", "  if constexpr (N > 3) {", "KVPAGE_ASSERT(a == 1);", "#if A == 1",
                     "constexpr int f(int a) { return a + 1; }", "  constexpr float kPi = pi();", "std::get<0>(x);",
                     "v.reserve(n + 1);", "case 3:", "std::array<int, 3> x;", "int x[4];"):
            self.assertEqual(mutants(line), [], line)

    def test_constants_are_mutated(self):
        self.assertEqual([change for change, _ in mutants("inline constexpr std::int64_t kSplit = 256;")], ["256 becomes more"])


class Lines(unittest.TestCase):
    def test_a_constant_of_several_lines_is_computed_by_the_compiler(self):
        path = "include/kvpage/sched/presets.hpp"
        lines = (places.ROOT / path).read_text(encoding="utf-8").splitlines()
        begin = next(i for i, line in enumerate(lines, start=1) if "kEdgePreset{" in line)
        mutated = [place.line for place in places.places_of("scheduler") if place.path == path]
        self.assertEqual([line for line in mutated if begin <= line <= begin + 5], [])
        self.assertIn("std::int64_t pool_tokens = 0;", [lines[line - 1].split("   //")[0].strip() for line in mutated])

    def test_a_constant_asks_the_switch(self):
        place = next(place for place in places.places_of("scheduler") if "kMaxRanked = 128" in place.text)
        with tempfile.TemporaryDirectory() as name:
            for folder in (pathlib.Path(place.path).parent, "include"):
                (pathlib.Path(name) / folder).mkdir(parents=True, exist_ok=True)
            places.write_mutants(pathlib.Path(name), {7: place})
            line = (pathlib.Path(name) / place.path).read_text(encoding="utf-8").splitlines()[place.line - 1]
        self.assertEqual(line, "  static inline const std::int64_t kMaxRanked = kvpage_mutation::more_at_start<7>(128);")


class Draw(unittest.TestCase):
    def place(self, line, text="a < b;", ordinal=0):
        return places.Place("s", "f.hpp", line, text, ordinal, 0, "< becomes <=")

    def test_one_place_of_each_line_and_the_same_order_every_time(self):
        found = [self.place(1), self.place(2, ordinal=1), self.place(2, text="c < d;")]
        order = list(places.in_order(found, 1))
        self.assertEqual(len(order), 2)
        self.assertEqual(order, list(places.in_order(reversed(found), 1)))

    def test_a_key_does_not_depend_on_other_lines(self):
        self.assertEqual(self.place(1).key, self.place(9).key)
        self.assertNotEqual(self.place(1).key, self.place(1, ordinal=1).key)

    def test_every_subject_has_a_thousand_places(self):
        for subject in places.SUBJECTS:
            self.assertGreater(len(places.places_of(subject)), 1000, subject)


if __name__ == "__main__":
    unittest.main()
