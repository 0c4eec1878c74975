"""Tests the parts of bench/peers that need neither PyTorch nor a GPU: problems, results, targets, pictures."""
import dataclasses
import json
import os
import pathlib
import py_compile
import tempfile
import unittest

from figures import PEERS, PLOTS, RUN, record

from suites import attention_backward_grids
from suites import attention_grids
import cells
import plot
import report
import results
import samples
import sections
import tables
import targets


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
            self.assertTrue(samples.MIN_COLS <= cell.cols <= samples.MAX_COLS, cell)
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
            for number, script in enumerate(pathlib.Path(PEERS).rglob("*.py")):
                py_compile.compile(str(script), os.path.join(folder, f"{number}.pyc"), doraise=True)

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
        self.assertEqual(drawn, ["attention.svg"])
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


if __name__ == "__main__":
    unittest.main()
