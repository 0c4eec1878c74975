#!/usr/bin/env python3
"""Tests of what commands.py compares and how it reads pages."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from commands import commands, first_missing, line_matches, output_matches
from page import Block, blocks


class Lines(unittest.TestCase):
    def test_text_is_compared_as_it_is(self) -> None:
        self.assertTrue(line_matches("check  passed (a+b)", "check  passed (a+b)"))
        self.assertFalse(line_matches("check  passed", "check  failed"))
        self.assertFalse(line_matches("check", "check  passed"))

    def test_dots_are_any_characters(self) -> None:
        self.assertTrue(line_matches("compiled in ... ms", "compiled in 535.3 ms"))
        self.assertFalse(line_matches("compiled in ... ms", "loaded in 535.3 ms"))

    def test_measured_values_may_differ_by_a_tenth(self) -> None:
        self.assertTrue(line_matches("time 131.9 us, 4070 GB/s", "time 140.0 us, 3800 GB/s"))
        self.assertFalse(line_matches("time 131.9 us, 4070 GB/s", "time 150.0 us, 3800 GB/s"))
        self.assertFalse(line_matches("time 131.9 us, 4070 GB/s", "time 140.0 us, 3000 GB/s"))
        self.assertFalse(line_matches("3 reads", "2 reads"))


class Outputs(unittest.TestCase):
    def test_without_dots_all_lines_are_compared(self) -> None:
        self.assertTrue(output_matches(["a", "b"], ["a", "b"]))
        self.assertFalse(output_matches(["a", "b"], ["a", "b", "c"]))
        self.assertFalse(output_matches(["a", "b"], ["a"]))

    def test_dots_are_any_lines(self) -> None:
        lines = ["a", "b", "c", "b", "d"]
        for expected in (
            ["..."],
            ["a", "...", "d"],
            ["...", "c", "..."],
            ["...", "b", "d"],
            ["a", "...", "b", "...", "b", "..."],
        ):
            self.assertTrue(output_matches(expected, lines), expected)
        for expected in (["...", "c"], ["b", "..."], ["...", "c", "...", "a", "..."], ["...", "a", "c", "..."]):
            self.assertFalse(output_matches(expected, lines), expected)

    def test_the_message_names_the_missing_line(self) -> None:
        self.assertEqual(first_missing(["a", "...", "x"], ["a", "b"]), "x")


class Pages(unittest.TestCase):
    def test_a_console_block_has_commands_and_outputs(self) -> None:
        block = Block("console", "", 10, ["$ a \\", "  b", "one", "$ c", "$ d", "two"])
        self.assertEqual(list(commands(block)), [(11, "a   b", ["one"]), (14, "c", []), (15, "d", ["two"])])
        with self.assertRaises(ValueError):
            list(commands(Block("console", "", 10, ["one"])))

    def test_fences_have_a_language_and_a_title(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.md"
            page.write_text('text\n```row title="a.row"\nin x\n```\n```\nplain\n```\n')
            found = [(block.language, block.title, block.line, block.text) for block in blocks(page)]
            self.assertEqual(found, [("row", "a.row", 2, "in x\n"), ("", "", 5, "plain\n")])
            page.write_text("```row\nin x\n")
            with self.assertRaises(ValueError):
                blocks(page)
            page.write_text("```row name=a\nin x\n```\n")
            with self.assertRaises(ValueError):
                blocks(page)


if __name__ == "__main__":
    unittest.main()
