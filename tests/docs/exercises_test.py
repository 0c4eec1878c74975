#!/usr/bin/env python3
"""exercises_test.py TUNESMITH: docs/course/check.py accepts the solutions of the exercises and rejects other programs."""

from __future__ import annotations

import os
import sys
import tempfile
import unittest
from pathlib import Path

COURSE = Path(__file__).resolve().parents[2] / "docs" / "course"
sys.path.insert(0, str(COURSE))

from check import EXERCISES, check  # noqa: E402


class Exercises(unittest.TestCase):
    def test_each_has_a_solution_and_a_line_in_the_page(self) -> None:
        self.assertEqual({path.stem for path in (COURSE / "solutions").glob("*.row")}, set(EXERCISES))
        page = (COURSE / "exercises.md").read_text(encoding="utf-8")
        for exercise in EXERCISES:
            self.assertIn(f"| `{exercise}` |", page)
            self.assertIn(f"(solutions/{exercise}.row)", page)

    def test_solutions_are_right(self) -> None:
        for exercise in EXERCISES:
            with self.subTest(exercise):
                self.assertEqual(check(exercise, COURSE / "solutions" / f"{exercise}.row"), "")

    def test_other_programs_are_wrong(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "wrong.row"
            program.write_text("in x : f32[row, col]\nout z : f32[row, col] = x + 11\n", encoding="utf-8")
            self.assertRegex(check("constant_add", program), r"z\[\d+, \d+\] is .*, expected ")
            program.write_text("in x : f32[row, col]\nout y : f32[row, col] = x + 10\n", encoding="utf-8")
            self.assertIn("z", check("constant_add", program))
            program.write_text("in x : f32[row, col]\nsum s = x\nout z : f32[row] = s + nan\n", encoding="utf-8")
            self.assertIn("nan", check("long_sum", program))


if __name__ == "__main__":
    os.environ["PATH"] = f"{Path(sys.argv.pop(1)).resolve().parent}:{os.environ['PATH']}"
    unittest.main()
