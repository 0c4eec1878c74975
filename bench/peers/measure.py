"""Measures one problem: arrays, Tunesmith's plan, the copy beside it, every peer, each checked before it is timed."""
import torch

import grids
import masks
import peers
import problems
import results
import timing
import tunesmith


class Bench:
    """An engine, a timer and the cells measured so far."""

    def __init__(self, args, names, say):
        self.names, self.say, self.said = names, say, set()
        # No shipped records: what is measured is what this engine finds.
        self.engine = tunesmith.Engine(args.library, effort=args.effort, mode=args.mode, cache_file=args.cache,
                                       system_caches="", tune_budget_s=args.tune_budget)
        self.timer = timing.Timer()
        self.stream = torch.cuda.current_stream().cuda_stream

    def once(self, line):
        if line not in self.said:
            self.said.add(line)
            self.say(line)

    def copy(self, cell, arrays):
        """(works that copy, bytes they move, facts). Tunesmith's copy is tuned whatever the mode; if it fails, PyTorch's
        stands in."""
        size, count, inputs = grids.SIZES[cell.dtype], cell.arrays, list(arrays.inputs)
        elements = (64 * grids.MIB if cell.grid == "cliffs" else arrays.bytes) // (count * size)
        output, facts = arrays.output, {}
        if elements != output.numel():
            inputs = [torch.randn(elements, dtype=output.dtype, device=output.device) for _ in inputs]
            output = torch.empty_like(inputs[0])
        works = {"copy": lambda: output.copy_(inputs[0]) if count == 2 else torch.add(*inputs, out=output)}
        try:
            # The tuner takes at most 2 GiB for its arrays; what is fastest there is fastest beyond.
            fields = {"inputs": count - 1, "dtype": tunesmith.dtype_name(output)}
            tuned = self.engine.plan("copy", mode=tunesmith.MODES["tune"], elements=min(elements, (2 << 30) // (count * size)),
                                     **fields)
            plan = self.engine.plan("copy", config=tuned.config, elements=elements, **fields)
            launch = plan.launcher(*inputs, output, stream=self.stream)
            launch()
            torch.cuda.synchronize()
            for part in (slice(0, 1 << 16), slice(-(1 << 16), None)):
                if not torch.equal(output.view(-1)[part], sum(array.view(-1)[part] for array in inputs)):
                    raise RuntimeError("the copy differs from its source")
            works = {"copy": launch, "torch_copy": works["copy"]}
            facts = {"copy_config": plan.config, "copy_tune_s": tuned.tune_s}
        except RuntimeError as error:
            facts = {"copy_config": "PyTorch's: " + peers.one_line(error)}
            self.once(f"no copy of Tunesmith's, PyTorch's instead: {peers.one_line(error)}")
        return works, elements * count * size, facts

    def checked(self, name, work, cell, arrays, want, rows):
        """Runs `work` once: its error; raises when it is too large."""
        arrays.output.fill_(float("nan"))
        result = work()
        got = (arrays.output if result is None else result)[rows].double()
        error, most = problems.relative_error(got, want), problems.bound(want, arrays.output.dtype, name == results.OWN)
        if not error <= most:
            raise RuntimeError(f"wrong: relative error {error:.2e}, allowed {most:.2e}")
        return error

    def measure(self, cell, rounds):
        """The record of one cell."""
        arrays = masks.make(cell) if cell.mask else problems.make(cell)
        rows = problems.some_rows(cell.rows)
        want = arrays.exact(rows)
        record = dict(vars(cell), bytes=arrays.bytes, error={}, left_out={})
        copies, record["copy_bytes"], facts = self.copy(cell, arrays)
        record.update(facts)

        def own(cell, arrays, timer):
            plan = self.engine.plan(cell.op, rows=cell.rows, cols=cell.cols, dtype=tunesmith.dtype_name(arrays.output),
                                    **arrays.fields)
            record.update(config=plan.config, origin=plan.origin, tune_s=plan.tune_s)
            return plan.launcher(*arrays.inputs, arrays.output, *arrays.extra, stream=self.stream)

        builders = {results.OWN: own}
        if cell.grid != "cliffs":
            builders.update((name, peers.PEERS[name]) for name in self.names)
        works = {}
        for name, build in builders.items():
            try:
                work = build(cell, arrays, self.timer)
                if work is not None:
                    record["error"][name] = self.checked(name, work, cell, arrays, want, rows)
                    works[name] = work
            except Exception as error:  # a peer's failure of whatever kind is a line in the report
                record["left_out"][name] = peers.one_line(error)
                self.say(f"{cell}: {name} left out: {record['left_out'][name]}")
                torch.cuda.synchronize()  # raises when the GPU's context is lost: then nothing more can be measured
        measured = self.timer.measure({**copies, **works}, rounds)
        for fact in ("us", "spread", "samples"):
            record[fact] = {name: value[fact] for name, value in measured.items()}
        return record

    def again(self, cells, rounds):
        """Measures both sides of every cliff again, in place: a cliff is a finding, noise is not."""
        doubtful = {results.key(cell) for sweep in results.sweeps(cells).values()
                    for drop, *pair in results.drops(sweep) if drop > results.CLIFF for cell in pair}
        for index, cell in enumerate(cells):
            if results.key(cell) in doubtful:
                try:
                    cells[index] = self.measure(grids.Cell(*results.key(cell)), rounds)
                except Exception as error:
                    self.say(f"{results.title(cell)}: not measured again: {peers.one_line(error)}")
