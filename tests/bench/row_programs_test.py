"""Tests the side-by-side of row programs without PyTorch and a GPU: its problems, targets, sections and picture."""
import ast
import json
import os
import re
import sys
import tempfile
import unittest
from unittest import mock

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PEERS = os.path.join(ROOT, "bench", "peers")
sys.path.insert(0, PEERS)
sys.dont_write_bytecode = True

import cells
import kernels
import merge
import pages
import results
from suites import row_program_grids as grids
import sections
import targets

RUN = {"gpu": "a GPU", "driver_version": "1", "torch": "1", "triton": "2", "date": "2026-01-01T00:00:00", "commit": "aaa",
       "command": "row_programs.py", "kernels": {"row_program": "r1"}, "missing": {"transformer_engine": "not installed"}}
COPY_US = 100.0


def record(cell, **times):
    """Returns a cell as row_programs.py writes it; `times` in microseconds."""
    found = dict(vars(cell), bytes=10**8, copy_kind="copy", copy_bytes=10**8, copy_config="c", copy_tune_s=1.0, left_out={},
                 config="variant=block", error=dict.fromkeys(times, 0.001), us={"copy": COPY_US, **times})
    if "hand_written" in times:
        found.update(hand_written_op=grids.hand_written(cell)[0], hand_written_kernel="h1")
    return found


def line(records, start):
    found, = [line for line in targets.target_lines(records) if line.startswith("| " + start)]
    return found


def measured(*names, **times):
    return [record(cell, **times) for cell in grids.cells(*names)]


class Problems(unittest.TestCase):
    def setUp(self):
        self.texts = {name.removesuffix(".row"): grids.source(name.removesuffix(".row")) for name in os.listdir(grids.FOLDER)}

    def test_every_shipped_program_has_a_cell(self):
        found = grids.cells()
        self.assertEqual(set(self.texts) - {cell.case for cell in found}, set())
        self.assertEqual({cell.case for cell in found} - set(grids.PROGRAMS), set())
        self.assertEqual(len(found), len(set(found)))

    def test_arrays_are_those_of_the_program(self):
        kinds = {"[row, col]": "rp", "[col]": "cb", "[row]": "tl"}
        suffixes = {"[row, col]": "", "[row]": "s", "[col]": "c", "[row, 8]": "k", "[row, col/128]": "g"}
        for name, text in self.texts.items():
            declared = [kind for names, kind in re.findall(r"^in (.+?) : \w+(\[.+?\])", text, re.M) for _ in names.split(",")]
            inputs, outputs = grids.PROGRAMS[name]
            self.assertEqual(len(inputs), len(declared), name)
            for kind, dims in zip(inputs, declared):
                self.assertIn(kind, kinds[dims], name)
            written = [("" if type == "float" else type) + suffixes[dims]
                       for type, dims in re.findall(r"^(?:out|colsum) \w+ : (\w+)(\[.+?\])", text, re.M)]
            self.assertEqual(outputs, written, name)

    def test_every_program_has_a_reference_in_pytorch(self):
        with open(os.path.join(PEERS, "suites", "row_program_problems.py")) as file:
            functions, = [node.value for node in ast.parse(file.read()).body
                          if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FUNCTIONS"]
        names = {key.value for key in functions.keys}
        for program in grids.PROGRAMS:
            norm = re.fullmatch(r"(\w+?)_(e4m3|i8)(_blocks)?", program)
            self.assertTrue(program in names or norm and norm[1] in names, program)

    def test_a_run_begins_with_norms_and_has_gradients_last(self):
        found = grids.cells()
        self.assertEqual([str(cell) for cell in found[:2]], ["rms_norm bf16 524288x64", "rms_norm bf16 262144x128"])
        order = list(dict.fromkeys(cell.grid for cell in found))
        self.assertEqual(order[:4], ["norms", "softmax", "norms_quantized", "row_quantize"])
        for program in ("rms_norm", "layer_norm"):
            cols = [cell.cols for cell in found if cell.case == program]
            self.assertEqual(cols, [64, 128, 256, 1024, 4096, 8192, 16384, 32768, 65536, 131072, 262144])
            self.assertEqual([cell.cols for cell in found if cell.case == program + "_gradient"], [128, 1024, 4096, 8192, 32768])
        for dtype in ("bfloat16", "float32"):
            self.assertEqual([cell.cols for cell in found if (cell.case, cell.dtype) == ("softmax", dtype)],
                             [1024, 4096, 32768, 65536, 131072])

    def test_programs_named_like_hand_written_operations_are_given_as_source(self):
        softmax = grids.cells("softmax")[0]
        op, fields = grids.problem(softmax)
        self.assertEqual((op, fields["program"], fields["cols"], fields["dtype"]),
                         ("row_program", grids.source("softmax"), 1024, "bf16"))
        self.assertEqual(grids.hand_written(softmax), ("softmax", {"rows": 32768, "cols": 1024, "dtype": "bf16"}))
        swiglu = grids.cells("activations")[0]
        self.assertEqual((grids.problem(swiglu)[0], grids.hand_written(swiglu)), ("swiglu", None))
        self.assertEqual(grids.copy_of(swiglu)[1]["program"],
                         "in x0, x1 : float[row, col]\nout y0 : float[row, col] = x0 + x1\n")

    def test_an_estimate_counts_each_kernel_once(self):
        swiglu = grids.cells("activations")  # two programs that share a copy
        self.assertEqual(grids.kernels_to_tune(swiglu), 3)
        without, more = (grids.estimate(swiglu, 2, budget, 14) for budget in (1.0, 3.0))
        self.assertAlmostEqual(more - without, 3 * 2.0)
        self.assertGreater(grids.estimate(swiglu, 2, 1.0), without)

    def test_a_record_says_which_program_it_is_of(self):
        for cell in grids.cells():
            self.assertEqual(cells.of_record(json.loads(json.dumps(vars(cell)))), cell)


class Targets(unittest.TestCase):
    def test_shares_of_the_copy_by_columns(self):
        found = measured("norms", tunesmith=105.0)  # 0.952 of the copy
        self.assertIn("met, 6 cells", line(found, "RMSNorm, LayerNorm, 64 to 256 columns"))
        self.assertIn("**missed**, 10 below, 10 cells", line(found, "RMSNorm, LayerNorm, 1024 to 32768 columns"))
        self.assertIn("met, 6 cells", line(found, "RMSNorm, LayerNorm, 65536 to 262144 columns"))
        self.assertIn("met, 3 cells", line(found, "add + norm"))
        self.assertIn("no cells", line(found, "norm to fp8"))
        others = measured("norms_quantized", "activations", "row_quantize", tunesmith=106.0)  # 0.943
        self.assertIn("**missed**, 5 below, 5 cells", line(others, "norm to fp8"))
        self.assertIn("**missed**, 1 below, 1 cells", line(others, "SwiGLU"))
        self.assertIn("**missed**, 1 below, 1 cells", line(others, "row quantization"))

    def test_the_best_peer_of_each_cell_and_the_hand_written_kernel(self):
        found = measured("softmax", "gates", tunesmith=100.0, liger=130.0, quack=121.0)
        for cell in found:
            if cell["case"] == "softmax":
                cell["us"]["hand_written"] = 99.0
        self.assertIn(f"met, {len(found)} cells", line(found, "all programs"))
        self.assertIn("met, 10 cells", line(found, "softmax as a program"))
        found[0]["us"].update(hand_written=97.0, quack=97.0)
        self.assertEqual(results.best_peer(found[0]), "quack")
        self.assertIn("**missed**, 1 below", line(found, "all programs"))
        self.assertIn("**missed**, 1 below", line(found, "softmax as a program"))
        for cell in found:
            cell["us"]["quack"] = 110.0
        self.assertIn("**missed**, 17 cells", line(found, "all programs"))


class Page(unittest.TestCase):
    """Sections of a folder of figures with and without row programs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = os.path.join(self.folder, "row_programs.json")
        self.cells = measured("norms", tunesmith=110.0, compile=121.0) + \
            [record(cell, tunesmith=100.0, compile=150.0, hand_written=90.0) for cell in grids.cells("softmax")[:2]]

    def section(self, words, digests=None):
        source = sections.Source(self.folder, digests or {"row_program": "r1", "softmax": "h1"})
        name, *arguments = words.split()
        return "\n".join(sections.SECTIONS[name](source, *arguments))

    def test_without_figures_there_is_no_table(self):
        self.assertEqual(self.section("brief row_programs"), "Not measured yet.")

    def test_a_grid_has_its_share_its_best_peer_and_its_commit(self):
        results.write(self.path, dict(RUN, cells=self.cells))
        table = self.section("brief row_programs")
        self.assertIn("| row_program | norms | GPU | 27 | 909 GB/s | 0.909 | 0.909 | 1.100 | 1.100 | aaa |", table)
        self.assertIn("| row_program | softmax | GPU | 2 | 1000 GB/s | 1.000 | 1.000 | 1.500 | 1.500 | aaa |", table)
        self.assertNotIn("changed since", table)
        table = self.section("brief row_programs:", {"row_program": "r2"})
        self.assertIn("| row_program | all | GPU | 29 | 1000 GB/s | 0.915 | 0.909 | 1.124 | 1.100 | aaa (1) |", table)
        self.assertIn("(1) The kernels have changed since.", table)
        self.assertEqual(self.section("commands row_programs"), "```\nrow_programs.py\n```")

    def test_misses_are_the_targets_that_are_missed(self):
        results.write(self.path, dict(RUN, cells=self.cells))
        text = self.section("misses row_programs")
        missed = [result for result in targets.target_results(self.cells) if result.met is False]
        self.assertEqual(text.count("\n- "), len(missed))
        self.assertIn("- RMSNorm, LayerNorm, 1024 to 32768 columns: 0.97 of copy: lowest 0.909 (", text)
        self.assertNotIn("norm to fp8", text)  # not measured

    def test_runs_are_merged_into_a_file_that_may_not_be_there(self):
        first, second = (os.path.join(self.folder, name) for name in ("first.part.json", "second.part.json"))
        results.write(first, dict(RUN, cells=self.cells))
        results.write(second, dict(RUN, commit="bbb", kernels={"row_program": "r2"},
                                   cells=measured("norms", tunesmith=99.0, compile=100.0)))
        with mock.patch.object(sys, "argv", ["merge.py", self.path, first, second]), mock.patch("builtins.print"):
            self.assertEqual(merge.main(), 0)
        run = results.read(self.path)
        self.assertEqual([(cell.get("commit"), cell.get("kernel")) for cell in run["cells"]],
                         [(None, None)] * 27 + [("aaa", "r1")] * 2)
        self.assertEqual(kernels.cell_state(run, run["cells"][-1], {"row_program": "r2"}), kernels.CHANGED)
        self.assertIn("| row_program | softmax | GPU | 2 | 1000 GB/s | 1.000 | 1.000 | 1.500 | 1.500 | aaa (1) |",
                      self.section("brief row_programs", {"row_program": "r2"}))

    def test_pages_draw_the_norms_if_there_are_figures(self):
        root = os.path.join(self.folder, "root")
        for folder in ("plots", "results"):
            os.makedirs(os.path.join(root, "bench", folder))
        page = os.path.join(root, "bench", "results", "row_programs.md")
        with open(os.path.join(root, "README.md"), "w"), open(page, "w") as file:
            file.write("<!-- figures: brief row_programs -->\n<!-- end of figures -->\n")
        self.assertIn("Not measured yet.", pages.generated(root, {})[page])
        plots = os.path.join(root, "bench", "plots")
        results.write(os.path.join(plots, "row_programs.json"), dict(RUN, cells=self.cells))
        found = pages.generated(root, {})
        self.assertIn("| row_program | norms |", found[page])
        picture = found[os.path.join(plots, "row_programs.svg")]
        for text in ("rms_norm, bfloat16", "layer_norm, bfloat16", "torch.compile", "Tunesmith", "256K", "commit aaa"):
            self.assertIn(text, picture)


if __name__ == "__main__":
    unittest.main()
