"""Tests what becomes of figures: which are older than their kernels, how runs are merged, published pages.

TUNESMITH_PROGRAM names the command line that reports the digests of the kernels; without it that test is skipped."""
import json
import os
import re
import shutil
import tempfile
import unittest

from figures import PLOTS, ROOT, RUN, record

from suites import attention_grids
import cells
import kernels
import merge
import pages
import relabel
import results
import sections


class Kernels(unittest.TestCase):
    def test_a_figure_is_older_when_one_of_its_kernels_changed(self):
        run = {"kernels": {"softmax": "s1", "log_softmax": "l1"}}
        self.assertEqual(kernels.state(run, {"softmax": "s1", "log_softmax": "l1", "copy": "c1"}), kernels.CURRENT)
        self.assertEqual(kernels.state(run, {"softmax": "s1", "log_softmax": "l2"}), kernels.CHANGED)
        self.assertEqual(kernels.state(run, {"softmax": "s1"}), kernels.CHANGED)
        self.assertEqual(kernels.state(run, {"softmax": "s1", "log_softmax": "l2"}, ["softmax"]), kernels.CURRENT)

    def test_without_a_digest_nothing_is_known(self):
        self.assertEqual(kernels.state({}, {"softmax": "s1"}), kernels.UNKNOWN)
        self.assertEqual(kernels.state({"kernels": {"softmax": None}}, {"softmax": "s1"}), kernels.UNKNOWN)
        self.assertEqual(kernels.state({"kernels": {"softmax": None, "copy": "c1"}}, {"copy": "c2"}), kernels.CHANGED)


    def build(self, script):
        """Returns a build folder's library with a command line that is a shell script."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        program = os.path.join(folder.name, "cli", "tunesmith")
        os.mkdir(os.path.dirname(program))
        with open(program, "w") as file:
            file.write("#!/bin/sh\n" + script)
        os.chmod(program, 0o755)
        return os.path.join(folder.name, "libtunesmith.so")

    def test_a_run_records_the_digests_that_the_command_line_lists(self):
        library = self.build("""echo '[{"op": "softmax", "templates": "s1"}, {"op": "attention", "templates": "a1"}]'""")
        self.assertEqual(kernels.recorded(library, ["softmax", "unknown"]), {"softmax": "s1", "unknown": None})

    def test_a_run_records_the_digest_at_the_head_of_a_source(self):
        library = self.build('[ "$1" = source ] && echo "// templates $2/kernel.cuh digest-of-$2"')
        self.assertEqual(kernels.recorded(library, ["attention"]), {"attention": "digest-of-attention"})

    def test_a_run_without_a_working_command_line_records_no_digest(self):
        self.assertEqual(kernels.recorded(self.build("exit 1"), ["softmax"]), {"softmax": None})
        self.assertEqual(kernels.recorded(os.path.join(PLOTS, "libtunesmith.so"), ["softmax"]), {"softmax": None})


class Merge(unittest.TestCase):
    """A new run of some of the published cells."""

    def setUp(self):
        cells = attention_grids.cells("forward")[:3]
        self.old = dict(RUN, commit="aaa", kernels={"attention": "a1"},
                        cells=[record(cell, tunesmith=100.0, cudnn=120.0) for cell in cells])
        self.new = dict(RUN, commit="bbb", kernels={"attention": "a2"}, command="new",
                        cells=[record(cells[1], tunesmith=90.0, cudnn=120.0)])

    def test_cells_that_were_not_measured_anew_name_their_commit_and_kernel(self):
        run, refused = merge.merged(self.old, self.new)
        self.assertEqual(refused, [])
        self.assertEqual([(cell.get("commit"), cell.get("kernel")) for cell in run["cells"]],
                         [("aaa", "a1"), (None, None), ("aaa", "a1")])
        self.assertEqual(run["cells"][1]["us"]["tunesmith"], 90.0)
        self.assertEqual([past["command"] for past in run["earlier"]], ["attention.py"])
        states = [kernels.cell_state(run, cell, {"attention": "a2"}) for cell in run["cells"]]
        self.assertEqual(states, [kernels.CHANGED, kernels.CURRENT, kernels.CHANGED])

    def test_pages_name_older_cells(self):
        run = merge.merged(self.old, dict(self.new, driver_version="1"))[0]
        with tempfile.TemporaryDirectory() as folder:
            results.write(os.path.join(folder, "attention.json"), run)
            source = sections.Source(folder, {"attention": "a2"})
            table = "\n".join(sections.brief(source, "attention"))
        self.assertIn("| aaa (1), bbb |", table)
        self.assertIn("(1) The kernels have changed since.", table)

    def test_a_cell_that_would_lose_a_peer_is_kept(self):
        del self.new["cells"][0]["us"]["cudnn"]
        run, refused = merge.merged(self.old, self.new)
        self.assertIn("the new run lacks cudnn", refused[0])
        self.assertEqual([cell.get("commit") for cell in run["cells"]], ["aaa"] * 3)
        run, refused = merge.merged(self.old, self.new, fewer_peers=True)
        self.assertEqual(([cell.get("commit") for cell in run["cells"]], refused), (["aaa", None, "aaa"], []))

    def test_runs_of_one_commit_share_a_head(self):
        first = merge.merged(self.old, self.new)[0]
        more = dict(self.new, command="more", cells=[dict(self.old["cells"][2])])
        run = merge.merged(first, more)[0]
        self.assertEqual([cell.get("commit") for cell in run["cells"]], ["aaa", None, None])
        self.assertEqual(run["command"], "new; more")


class Relabel(unittest.TestCase):
    """Templates that changed, and kernels that did not."""

    def setUp(self):
        drawn = [dict(vars(cells.Cell("sample", "softmax", "float32", rows, 64)), config="variant=warp") for rows in (1, 2)]
        self.run = {"commit": "aaa", "kernels": {"softmax": "s1"}, "cells": drawn + [dict(drawn[0], commit="old", kernel="s0")]}

    def states(self, same):
        run, changed = relabel.relabelled(self.run, same, {"softmax": "s1"}, {"softmax": "s2"})
        return changed, run["kernels"], [kernels.cell_state(run, cell, {"softmax": "s2"}) for cell in run["cells"]], run

    def test_the_head_follows_if_all_of_its_cells_are_the_same(self):
        changed, head, states, run = self.states({0, 1, 2})
        self.assertEqual((changed, head), (2, {"softmax": "s2"}))
        self.assertEqual(states, [kernels.CURRENT, kernels.CURRENT, kernels.CHANGED])
        self.assertEqual([cell.get("commit") for cell in run["cells"]], [None, None, "old"])

    def test_otherwise_the_same_cells_name_their_kernels(self):
        changed, head, states, run = self.states({1})
        self.assertEqual((changed, head), (1, {"softmax": "s1"}))
        self.assertEqual(states, [kernels.CHANGED, kernels.CURRENT, kernels.CHANGED])
        self.assertEqual([cell.get("commit") for cell in run["cells"]], [None, "aaa", "old"])

    def test_a_head_without_cells_stays(self):
        self.run["cells"] = self.run["cells"][2:]
        self.assertEqual(self.states({0})[:2], (0, {"softmax": "s1"}))

    def test_a_cell_says_which_kernel_it_had(self):
        fused = dict(vars(cells.Cell("sample", "cross_entropy_fused", "bfloat16", 3, 5)), config="variant=block")
        self.assertEqual(relabel.problem_of(fused, "sm_90a"),
                         ("cross_entropy", [("rows", 3), ("cols", 5), ("dtype", "bf16"), ("reduction", "none"),
                                            ("target_dtype", "i64"), ("gradient", "in_place")], "sm_90a", "variant=block"))
        program = dict(fused, op="row_program", case="rms_norm")
        self.assertIn("in x : float[row, col]", dict(relabel.problem_of(program, "sm_90a")[1])["program"])
        self.assertIsNone(relabel.problem_of(dict(fused, op="softmax", case="add"), "sm_90a"))
        self.assertIsNone(relabel.problem_of(dict(fused, config=""), "sm_90a"))


def digests_of_figures():
    """Returns the digests that make every recorded figure current."""
    found = {}
    for name in os.listdir(PLOTS):
        if name.endswith(".json"):
            found.update(results.read(os.path.join(PLOTS, name)).get("kernels", {}))
    return found


class Pages(unittest.TestCase):
    """On a copy of the published files."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        for name in ("plots", "results"):
            shutil.copytree(os.path.join(ROOT, "bench", name), os.path.join(self.root, "bench", name))
        shutil.copy(os.path.join(ROOT, "README.md"), self.root)
        os.mkdir(os.path.join(self.root, "docs"))
        shutil.copy(os.path.join(ROOT, "docs", "accuracy.md"), os.path.join(self.root, "docs"))
        self.digests = digests_of_figures()
        self.write(self.outdated())

    def outdated(self):
        return {os.path.relpath(path, self.root): text for path, text in pages.outdated(self.root, self.digests).items()}

    def write(self, files):
        for path, text in files.items():
            with open(os.path.join(self.root, path), "w") as file:
                file.write(text)

    def read(self, path):
        with open(os.path.join(self.root, path)) as file:
            return file.read()

    def test_pages_that_were_just_written_are_current(self):
        self.assertEqual(self.outdated(), {})

    def test_a_changed_kernel_marks_its_figures(self):
        page, path = os.path.join("bench", "results", "attention.md"), os.path.join("bench", "plots", "attention.json")
        run = dict(results.read(os.path.join(self.root, path)), commit="abc1234", kernels={"attention": "measured"})
        self.digests["attention"] = "measured"
        self.write({path: results.dumps(run)})
        self.write(self.outdated())
        self.assertIn("| abc1234 |", self.read(page))
        self.digests["attention"] = "another"
        found = self.outdated()
        self.assertEqual(sorted(found), ["README.md", os.path.join("bench", "results", "README.md"), page])
        self.assertIn("| abc1234 (1) |", found[page])
        self.assertIn("(1) The kernels have changed since.", found[page])
        self.assertIn("abc1234 (1)", found["README.md"])
        self.assertIn("(1) The kernels have changed since.", found["README.md"])

    def test_a_changed_figure_changes_pages_pictures_and_the_readme(self):
        path = os.path.join("bench", "plots", "attention.json")
        run = results.read(os.path.join(self.root, path))
        run["cells"][0]["us"]["tunesmith"] *= 2
        self.write({path: results.dumps(run)})
        self.assertEqual(sorted(self.outdated()),
                         ["README.md", os.path.join("bench", "plots", "attention.svg"),
                          os.path.join("bench", "plots", "summary.svg"), os.path.join("bench", "results", "attention.md")])

    def test_an_edited_table_a_picture_and_a_spread_out_file_are_outdated(self):
        page, picture = os.path.join("bench", "results", "softmax.md"), os.path.join("bench", "plots", "softmax.svg")
        path = os.path.join("bench", "plots", "masks.json")
        self.write({page: self.read(page).replace("0.959", "0.969"), picture: self.read(picture).replace("Tunesmith", "Ours"),
                    path: json.dumps(json.loads(self.read(path)), indent=1)})
        self.assertEqual(sorted(self.outdated()), sorted([path, picture, page]))

    def test_every_section_that_opens_is_closed(self):
        for path in pages.pages(ROOT):
            with open(path) as file:
                text = file.read()
            self.assertEqual(len(re.findall("<!-- figures:", text)), len(pages.SECTION.findall(text)), path)

    def test_pages_and_readme_are_what_the_generator_writes(self):
        program = os.environ.get("TUNESMITH_PROGRAM")
        if not program:
            self.skipTest("TUNESMITH_PROGRAM is not set")
        found = pages.outdated(ROOT, kernels.current(program))
        self.assertEqual([os.path.relpath(path, ROOT) for path in found], [],
                         "to bring them up to date: python3 bench/peers/pages.py --tunesmith " + program)


if __name__ == "__main__":
    unittest.main()
