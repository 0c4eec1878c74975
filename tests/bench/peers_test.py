"""Tests the parts of bench/peers that need neither PyTorch nor a GPU: problems, results, targets, pictures, published pages.

TUNESMITH_PROGRAM names the command line that reports the digests of the kernels; without it that test is skipped."""
import dataclasses
import json
import os
import py_compile
import re
import shutil
import sys
import tempfile
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PEERS = os.path.join(ROOT, "bench", "peers")
PLOTS = os.path.join(ROOT, "bench", "plots")
sys.path.insert(0, PEERS)
sys.dont_write_bytecode = True

import attention_backward_grids
import attention_grids
import cells
import kernels
import merge
import pages
import plot
import relabel
import report
import results
import samples
import sections
import tables
import targets

RUN = {"gpu": "a GPU", "torch": "1", "triton": "2", "date": "2026-01-01T00:00:00", "command": "attention.py"}


def record(cell, **times):
    """Returns a cell as measure.py writes it; `times` in microseconds."""
    facts = {"bytes": attention_grids.kv_bytes(cell), "copy_kind": "", "baseline": "cudnn", "flops": attention_grids.flops(cell)}
    if cell.grid == "decode":
        facts.update(flops=0, copy_kind="read", copy_bytes=facts["bytes"])
    if cell.grid == "mods":
        facts["baseline"] = "flex"
    return dict(vars(cell), **facts, error=dict.fromkeys(times, 0.5), left_out={}, us=times, config="variant=simt")


def line(records, start):
    found, = [line for line in targets.target_lines(records) if line.startswith("| " + start)]
    return found


ARRAYS = {"softmax": 2, "softmax_backward": 3}


class Samples(unittest.TestCase):
    def test_shapes_follow_from_the_seed_whatever_else_is_asked_for(self):
        found = samples.cells(ARRAYS, 5, 30)
        self.assertEqual(found, samples.cells(ARRAYS, 5, 30))
        self.assertEqual([cell for cell in found if (cell.op, cell.dtype) == ("softmax_backward", "bfloat16")],
                         samples.cells(ARRAYS, 5, 30, ["softmax_backward"], ["bfloat16"]))
        self.assertFalse({str(cell) for cell in found} & {str(cell) for cell in samples.cells(ARRAYS, 6, 30)})

    def test_shapes_are_large_and_of_all_widths(self):
        found = samples.cells(ARRAYS, 1, 200)
        for cell in found:
            traffic = cell.rows * cell.cols * cells.SIZES[cell.dtype] * ARRAYS[cell.op]
            least, most = samples.BYTES[samples.GRID]
            self.assertTrue(least <= traffic <= most, cell)
            self.assertTrue(samples.LEAST_COLS <= cell.cols <= samples.MOST_COLS, cell)
        # Log-uniform: each quarter of the 16 octaves has a quarter of the shapes. 4 standard deviations of a binomial count.
        for begin in range(4, 20, 4):
            count = sum(1 << begin <= cell.cols < 1 << (begin + 4) for cell in found)
            self.assertLess(abs(count - len(found) / 4), 4 * (len(found) * 3 / 16) ** 0.5)
        aligned = sum(cell.cols * cells.SIZES[cell.dtype] % 16 == 0 for cell in found)
        self.assertTrue(0.4 < aligned / len(found) < 0.75, aligned)
        self.assertTrue(any(cell.cols % 2 == 1 for cell in found))

    def test_distribution_and_targets_count_odd_and_wide_rows_apart(self):
        shapes = [(9000, 1001, 1.1), (9000, 1000, 1.05), (40, 400000, 1.2)]
        found = [dict(vars(cells.Cell("sample", "softmax", "float32", rows, cols)), bytes=rows * cols * 8, copy_kind="copy",
                      copy_bytes=rows * cols * 8, error={"tunesmith": 0.1, "torch": 0.1}, left_out={},
                      us={"copy": 100.0, "tunesmith": 100 * time, "torch": 200.0})
                 for rows, cols, time in shapes]
        self.assertIn("| 0.909 (softmax f32 9000x1001) | 0.909 | met", line(found, "sample, up to 131072 columns, odd"))
        self.assertIn("| 0.952 (softmax f32 9000x1000) | 0.952 | met", line(found, "sample, up to 131072 columns, even"))
        self.assertIn("**missed**, 1 below", line(found, "sample, above 131072 columns"))
        self.assertIn("**missed**", line(found, "sample: 0.96 of copy on average"))
        table = tables.distribution(found)
        self.assertEqual(len(table), 4)
        self.assertIn("| softmax f32 | up to 1024 | 2 | 0.930 | 0.952 | 0.909 | 0.909 (9000x1001) | 1.82 |", table[2])
        self.assertEqual(tables.distribution([]), [])

    def test_the_default_of_drawn_shapes_is_compared_with_the_tuned_configuration_and_is_no_peer(self):
        found = [dict(vars(cells.Cell("sample", "softmax", "float32", 9000, cols)), bytes=1, copy_kind="copy", copy_bytes=1,
                      error={"tunesmith": 0.1}, left_out={},
                      us={"copy": 90.0, "tunesmith": 100.0, "torch": 200.0, "tunesmith_default": default})
                 for cols, default in ((1000, 99.0), (1001, 120.0))]
        self.assertIn("| 0.833 (softmax f32 9000x1001) | 0.917 | **missed**, 1 below", line(found, "sample, tuned time over"))
        self.assertIn("| 1.010 (softmax f32 9000x1000) | 1.010 | met", line(found[:1], "sample, tuned time over"))
        self.assertEqual(results.best_peer(found[0]), "torch")


    def test_small_shapes_move_at_most_8_mib(self):
        found = samples.cells(ARRAYS, 3, 200, grid=samples.SMALL)
        self.assertEqual({cell.grid for cell in found}, {"small"})
        traffics = [cell.rows * cell.cols * cells.SIZES[cell.dtype] * ARRAYS[cell.op] for cell in found]
        self.assertTrue(min(traffics) >= 1 << 18 and max(traffics) <= 8 << 20, (min(traffics), max(traffics)))
        self.assertTrue(min(traffics) < 1 << 19 and max(traffics) > 4 << 20)
        self.assertTrue(min(cell.cols for cell in found) < 64 and max(cell.cols for cell in found) > 1 << 18)
        self.assertFalse({str(cell) for cell in found} & {str(cell) for cell in samples.cells(ARRAYS, 3, 200)})
        records = [dict(vars(cell), bytes=1, error={"tunesmith": 0.1}, left_out={}, us={"tunesmith": 100.0, "torch": 98.0})
                   for cell in found]
        self.assertIn(f"| met, {len(found)} cells", line(records, "small: 0.97 x best peer"))
        records[3]["us"]["torch"] = 96.0
        self.assertIn("**missed**, 1 below", line(records, "small: 0.97 x best peer"))
        self.assertEqual([text for text in targets.target_lines(records) if "sample" in text], [])


class Grids(unittest.TestCase):
    def test_forward_is_every_head_dim_mask_and_length_at_the_same_size(self):
        found = attention_grids.cells("forward")
        self.assertEqual(len(found), 36)
        self.assertEqual(len(set(found)), 36)
        for cell in found:
            self.assertEqual((cell.batch * cell.seq_q, cell.heads * cell.head_dim), (16384, 2048))

    def test_flops_are_four_head_dim_a_visible_pair(self):
        full, causal = [cell for cell in attention_grids.cells("forward") if (cell.head_dim, cell.seq_q) == (128, 4096)]
        self.assertEqual(attention_grids.flops(full), 4 * 4 * 16 * 4096 * 4096 * 128)
        self.assertEqual(attention_grids.flops(causal), attention_grids.flops(full) / 2)
        by_case = {cell.case: cell for cell in attention_grids.cells("mods")}
        self.assertEqual(attention_grids.pairs(by_case["document"]), 4096 * 1024)
        seen = sum(1 for query in range(4096) for key in range(max(0, query - 1024), query + 1))
        self.assertEqual(attention_grids.pairs(by_case["window"]), seen)

    def test_documents_are_packed_sequences_of_the_same_tokens(self):
        cell, = [cell for cell in attention_grids.cells("mods") if (cell.case, cell.head_dim) == ("document", 64)]
        fields = attention_grids.own_fields(cell)
        self.assertEqual((fields["batch"], fields["seq_q"], fields["total_q"], fields["varlen"]), (16, 1024, 16384, 1))

    def test_a_record_says_which_cell_it_is_of(self):
        rows = cells.Cell("main", "softmax", "float32", 4096, 128)
        for cell in (rows, *attention_grids.cells("accuracy"), *attention_grids.cells("decode")):
            self.assertEqual(cells.of_record(json.loads(json.dumps(vars(cell)))), cell)
        self.assertEqual(str(rows), "softmax f32 4096x128")
        titles = [str(cell) for grid in attention_grids.GRIDS for cell in attention_grids.cells(grid)]
        self.assertIn("attention bf16 d128 1x32/8x1:65536", titles)
        self.assertIn("attention bf16 d64 4x32x4096 causal window", titles)


class Targets(unittest.TestCase):
    def setUp(self):
        self.forward = [record(cell, tunesmith=100.0, cudnn=120.0, flash2=200.0) for cell in attention_grids.cells("forward")]

    def test_forward_needs_the_mean_and_every_cell(self):
        self.assertIn("| met, 36 cells", line(self.forward, "forward: 1.0 x cuDNN"))
        self.assertIn("| met, 36 cells", line(self.forward, "forward: 1.8 x Flash"))
        self.forward[7]["us"]["cudnn"] = 99.0
        self.assertIn("**missed**, 1 below", line(self.forward, "forward: 1.0 x cuDNN"))
        self.assertIn(f"- 0.990: {results.key(self.forward[7])}", tables.slower_than(self.forward, "cudnn"))
        for cell in self.forward:
            cell["us"].update(cudnn=110.0, flash2=170.0)
        self.assertIn("**missed**", line(self.forward, "forward: 1.0 x cuDNN"))
        self.assertIn("**missed**", line(self.forward, "forward: 1.8 x Flash"))

    def test_a_cell_without_tunesmith_is_missed(self):
        self.forward[3].update(us={"cudnn": 1.0}, error={"cudnn": 0.0})
        self.assertIn("1 without Tunesmith", line(self.forward, "forward: 1.0 x cuDNN"))

    def test_modifications_against_flex_and_the_plain_kernel(self):
        mods = [record(cell, tunesmith=120.0, tunesmith_plain=100.0, flex=170.0) for cell in attention_grids.cells("mods")]
        self.assertIn(f"| met, {len(mods)} cells", line(mods, "modifications: 1.4"))
        self.assertIn("| met, 12 cells", line(mods, "ALiBi, softcap"))
        mods[4]["us"].update(tunesmith=126.0)
        self.assertEqual(mods[4]["case"], "alibi")
        self.assertIn("**missed**, 1 below", line(mods, "ALiBi, softcap"))
        self.assertIn("**missed**, 1 below", line(mods, "modifications: 1.4"))
        self.assertEqual(results.best_peer(mods[4]), "flex")

    def test_decode_against_cudnn_and_the_read_where_there_is_much_to_read(self):
        decode = [record(cell, tunesmith=100.0, cudnn=100.0, copy=91.0) for cell in attention_grids.cells("decode")]
        self.assertIn("| met, 6 cells", line(decode, "decode: 1.0"))
        self.assertIn("| met, 4 cells", line(decode, "decode, 256 MiB"))
        decode[2]["us"]["copy"] = 89.0
        self.assertIn("**missed**, 1 below", line(decode, "decode, 256 MiB"))
        decode[0]["us"]["copy"] = 50.0  # 128 MiB
        self.assertIn("**missed**, 1 below", line(decode, "decode, 256 MiB"))

    def test_accuracy_needs_no_times(self):
        checked = [dict(record(cell), error={"tunesmith": 0.9}) for cell in attention_grids.cells("accuracy")]
        self.assertIn("met, 48 cells", line(checked, "accuracy"))
        checked[5]["error"] = {}
        self.assertIn("1 without Tunesmith", line(checked, "accuracy"))


class Files(unittest.TestCase):
    def test_every_script_compiles(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in os.listdir(PEERS):
                if name.endswith(".py"):
                    py_compile.compile(os.path.join(PEERS, name), os.path.join(folder, name + "c"), doraise=True)

    def test_report_and_pictures_of_a_run(self):
        times = {"forward": {"cudnn": 120.0, "flash2": 200.0}, "mods": {"flex": 170.0, "tunesmith_plain": 90.0},
                 "decode": {"cudnn": 110.0, "copy": 95.0}}
        found = [record(cell, tunesmith=100.0, **others) for grid, others in times.items()
                 for cell in attention_grids.cells(grid)]
        found += [dict(record(cell), error={"tunesmith": 0.9}) for cell in attention_grids.cells("accuracy")]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "attention.json")
            with open(path, "w") as file:
                file.write(results.dumps(dict(RUN, cells=found)))
            text = "\n".join(report.report([path]))
            drawn = [os.path.basename(name) for name in plot.draw([path], folder)]
        self.assertEqual(drawn, ["attention.svg", "attention_mods.svg", "attention_decode.svg"])
        # 4 * 4 * 16 * 4096^2 * 128 operations in 100 us
        self.assertIn("| bf16 d128 4x16x4096 | **5498 (1.200)** | 4581 | 2749 (0.600) | 1.20 |", text)
        self.assertIn("- 1.111: attention bf16 d64 4x32x4096 alibi", text)
        self.assertIn("| bf16 d40 2x4x113:203 | 0.90 |", text)

    def test_every_published_side_by_side_is_readable(self):
        published = {name.removesuffix(".json") for name in os.listdir(PLOTS) if name.endswith(".json")}
        names = [name for names in sections.PAGES.values() for name in names]
        self.assertEqual(set(names) - published - {"row_programs"}, set())  # row programs may not be measured yet
        self.assertEqual(published - set(names), set())
        names = [name for name in names if name in published]
        files = [os.path.join(PLOTS, name + ".json") for name in names if "accuracy" not in name and "linear" not in name]
        self.assertIn("## Targets", report.report(files))

    def test_a_file_has_one_line_per_cell(self):
        found = [record(cell, tunesmith=100.0) for cell in attention_grids.cells("forward")]
        text = results.dumps(dict(RUN, kernels={"attention": "d1"}, cells=found))
        self.assertEqual(json.loads(text), dict(RUN, kernels={"attention": "d1"}, cells=found))
        self.assertEqual(len(text.splitlines()), len(found) + len(RUN) + 5)


class BackwardGrids(unittest.TestCase):
    def test_every_head_dim_has_16384_tokens_and_all_cells_differ(self):
        found = attention_backward_grids.cells("backward")
        self.assertEqual((len(found), len(set(found))), (48, 48))
        for cell in found:
            self.assertEqual((cell.batch * cell.seq_q, cell.heads), (16384, 2048 // cell.head_dim))

    def test_five_products_are_counted_and_two_more_with_the_forward_pass(self):
        for grid, products in (("backward", 5), ("deterministic", 5), ("pair", 7)):
            full, causal = [cell for cell in attention_backward_grids.cells(grid) if (cell.head_dim, cell.seq_q) == (128, 8192)]
            self.assertEqual(attention_backward_grids.flops(full), products * 2 * 2 * 16 * 8192 * 8192 * 128)
            self.assertEqual(attention_backward_grids.flops(causal), attention_backward_grids.flops(full) / 2)

    def test_accuracy_has_the_lengths_of_flash_attention_and_is_held_to_its_criterion(self):
        cells = attention_backward_grids.cells("accuracy")
        self.assertEqual((len(cells), len(set(cells))), (152, 152))
        lengths = {(cell.head_dim, cell.causal, cell.seq_q, cell.seq_kv) for cell in cells if not cell.case}
        self.assertEqual(len(lengths), 4 * 2 * 16)
        self.assertTrue({(1, 1), (64, 128), (128, 192), (239, 1), (799, 3), (384, 256), (640, 128), (4224, 4224)} <=
                        set(attention_backward_grids.ODD_LENGTHS))
        checked = [dict(record(cell), error={"tunesmith": 0.5}) for cell in cells]
        self.assertIn("met, 152 cells", line(checked, "accuracy"))
        self.assertEqual({cell.dtype for cell in attention_backward_grids.cells("accuracy", None, ["float16"])}, {"float16"})

    def test_accuracy_begins_with_every_kind_at_three_head_dims(self):
        cells = attention_backward_grids.cells("accuracy")
        kinds = {(cell.dtype, cell.heads // cell.kv_heads, cell.causal, cell.case) for cell in cells}
        self.assertEqual(len(kinds), 10)
        self.assertEqual({group for _, group, _, _ in kinds}, {1, 2, 4})
        self.assertEqual([cell.head_dim for cell in cells[:30]], 10 * [128] + 10 * [64] + 10 * [256])
        for first in (0, 10, 20):
            self.assertEqual({(cell.dtype, cell.heads // cell.kv_heads, cell.causal, cell.case) for cell in cells[first:first + 10]},
                             kinds)
        self.assertEqual([cell.head_dim for cell in cells[-32:]], 32 * [40])

    def test_accuracy_has_soft_caps_and_windows_of_its_own(self):
        cells = attention_backward_grids.cells("accuracy")
        fields = {(cell.case, cell.causal): attention_backward_grids.own_fields(cell) for cell in cells}
        self.assertEqual(fields["softcap 15", "none"]["softcap"], 15.0)
        self.assertEqual((fields["window", "none"]["window_left"], fields["window", "none"]["window_right"]), (60, 20))
        self.assertEqual(fields["window", "bottom-right"]["window_left"], 60)
        self.assertNotIn("window_right", fields["window", "bottom-right"])
        capped, = [cell for cell in attention_backward_grids.cells("options") if cell.case == "softcap"]
        self.assertEqual(attention_backward_grids.own_fields(capped)["softcap"], 30.0)

    def test_options_have_snippets_and_plain_cells_of_their_shapes(self):
        cells = attention_backward_grids.cells("options")
        self.assertEqual(len(set(cells)), len(cells))
        for cell in cells:
            self.assertEqual(cell.batch * cell.heads * cell.seq_q * cell.head_dim, 16384 * 2048)
            if cell.head_dim == 64:
                self.assertIn(dataclasses.replace(cell, case=""), cells)
            fields = attention_backward_grids.own_fields(cell)
            if cell.case in attention_backward_grids.SCORE_MODS:
                self.assertIn("score_mod(", fields["score_mod"])
            if cell.case == "document mask":
                self.assertIn("mask_mod(", fields["mask_mod"])
                self.assertEqual((fields["block_mask"], attention_backward_grids.pairs_left(cell)), ("read", 0.25))

    def test_modified_options_are_held_to_the_plain_time_and_to_the_pairs_left(self):
        cells = attention_backward_grids.cells("options")
        bias, *_ = [cell for cell in cells if cell.case == "relative bias snippet"]
        documents, *_ = [cell for cell in cells if cell.case == "document mask"]
        found = line([record(bias, tunesmith=160.0, tunesmith_plain=100.0)], "score_mod")
        self.assertIn("0.625", found)
        self.assertIn("**missed**", found)
        self.assertIn("met, 1 cells", line([record(bias, tunesmith=140.0, tunesmith_plain=100.0)], "score_mod"))
        found = line([record(documents, tunesmith=30.0, tunesmith_plain=100.0)], "document mask")
        self.assertIn("0.833", found)
        self.assertIn("**missed**", found)
        self.assertIn("met, 1 cells", line([record(documents, tunesmith=25.0, tunesmith_plain=100.0)], "document mask"))

    def test_deterministic_cells_are_compared_with_the_kernel_without_the_option(self):
        cell, = [cell for cell in attention_backward_grids.cells("deterministic") if str(cell).endswith("d64 2x32x8192 deterministic")]
        self.assertEqual(attention_backward_grids.own_fields(cell)["deterministic"], 1)
        found = line([record(cell, tunesmith=125.0, tunesmith_plain=100.0, flash4=150.0)], "deterministic: 0.92")
        self.assertIn("0.800", found)
        self.assertIn("**missed**", found)


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
            head = "\n".join(sections.measured(source, "attention"))
            table = "\n".join(sections.speeds(source, "attention", "forward"))
        self.assertIn("2 cells are of aaa (2 of the grid forward): **their kernels have changed since.**", head)
        self.assertIn("Cells of aaa, 2026-01-01:", head)
        self.assertEqual(table.count("[aaa]"), 2)

    def test_a_grid_without_cells_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            results.write(os.path.join(folder, "attention.json"), self.old)
            source = sections.Source(folder, {})
            self.assertEqual(sections.speeds(source, "attention", "pair"), sections.NOT_MEASURED)
            self.assertEqual(sections.distribution(source, "attention"), sections.NOT_MEASURED)

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

    def test_a_cell_says_which_kernel_it_had(self):
        fused = dict(vars(cells.Cell("sample", "cross_entropy_fused", "bfloat16", 3, 5)), config="variant=block")
        self.assertEqual(relabel.problem_of(fused, "sm_90a", ""),
                         ("cross_entropy", [("dtype", "bf16"), ("rows", 3), ("cols", 5), ("reduction", "none"),
                                            ("target_dtype", "i64"), ("gradient", "in_place")], "sm_90a", "variant=block"))
        program = dict(fused, op="row_program", case="rms_norm")
        self.assertIn("in x : float[row, col]", dict(relabel.problem_of(program, "sm_90a", "")[1])["program"])
        self.assertIsNone(relabel.problem_of(dict(fused, op="softmax", case="add"), "sm_90a", ""))
        self.assertIsNone(relabel.problem_of(dict(fused, config=""), "sm_90a", ""))


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
        self.assertIn("The kernels have not changed since.", self.read(page))
        self.digests["attention"] = "another"
        found = self.outdated()
        self.assertEqual(sorted(found), ["README.md", os.path.join("bench", "results", "README.md"), page])
        self.assertIn("Measured at abc1234", found[page])
        self.assertIn("**The kernels have changed since.**", found[page])
        self.assertIn("abc1234 (1)", found["README.md"])
        self.assertIn("(1) The kernels have changed since.", found["README.md"])

    def test_a_changed_figure_changes_pages_pictures_and_the_readme(self):
        path = os.path.join("bench", "plots", "attention.json")
        run = results.read(os.path.join(self.root, path))
        run["cells"][0]["us"]["tunesmith"] *= 2
        self.write({path: results.dumps(run)})
        self.assertEqual(sorted(self.outdated()),
                         ["README.md", os.path.join("bench", "plots", "attention.svg"),
                          os.path.join("bench", "results", "attention.md")])

    def test_an_edited_table_a_picture_and_a_spread_out_file_are_outdated(self):
        page, picture = os.path.join("bench", "results", "softmax.md"), os.path.join("bench", "plots", "cliffs.svg")
        path = os.path.join("bench", "plots", "masks.json")
        self.write({page: self.read(page).replace("0.959", "0.969"), picture: self.read(picture).replace("4.8%", "3.8%"),
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
