"""Measures one problem: arrays, Tunesmith's plan, the roof beside it, every peer, each checked before it is timed."""
import torch

import family
import results
import roofs
import timing
import tunesmith

CLIFF_TRAFFIC = 64 * roofs.MIB  # all widths of a sweep are divided by one and the same roof


class Bench:
    """An engine, a timer and the cells measured so far."""

    def __init__(self, args, of, names, say):
        self.family, self.names, self.say, self.said = of, names, say, set()
        # No shipped records: what is measured is what this engine finds.
        self.engine = tunesmith.Engine(args.library, effort=args.effort, mode=args.mode, cache_file=args.cache,
                                       system_caches="", tune_budget_s=args.tune_budget)
        self.timer = timing.Timer()
        self.stream = torch.cuda.current_stream().cuda_stream

    def once(self, line):
        if line not in self.said:
            self.said.add(line)
            self.say(line)

    def checked(self, name, work, cell, arrays, want, rows):
        """Runs `work` once: its largest error; raises when one is too large."""
        arrays.reset()
        result = work()
        own, worst = name == results.OWN, 0.0
        for part, got in arrays.observe(arrays.outputs if result is None else result, rows).items():
            error = family.relative_error(got, want[part])
            # Beside its error it may round twice, which of values below the dtype's normal numbers costs most of their digits.
            dtype = arrays.outputs[part.split(".")[0]].dtype if own else getattr(torch, cell.dtype)
            rounding = family.relative_error(want[part].to(dtype).double(), want[part])
            most = (arrays.own_error if own else arrays.peer_error[cell.dtype]) + 2 * rounding
            if not error <= most:
                raise RuntimeError(f"wrong {part}: relative error {error:.2e}, allowed {most:.2e}")
            worst = max(worst, error)
        return worst

    def own(self, cell, arrays, record):
        """Tunesmith's launcher; writes to the record which configuration it is."""
        plan = self.engine.plan(arrays.op, rows=cell.rows, cols=cell.cols, **arrays.fields)
        record.update(config=plan.config, origin=plan.origin, tune_s=plan.tune_s)
        return plan.launcher(*arrays.operands, stream=self.stream)

    def measure(self, cell, rounds):
        """The record of one cell."""
        arrays = self.family.make(cell)
        rows = family.some_rows(cell.rows)
        want = arrays.exact(rows)
        record = dict(vars(cell), bytes=arrays.bytes, roof=arrays.roof, error={}, left_out={})
        copies, record["copy_bytes"], facts = roofs.make(self.engine, arrays, self.timer, self.stream,
                                                         CLIFF_TRAFFIC if cell.grid == "cliffs" else 0)
        record.update(facts)
        if "copy_tune_s" not in facts:
            self.once(f"no roof of Tunesmith's, {', '.join(copies)} instead: {facts['copy_config']}")
        builders = {results.OWN: lambda *_: self.own(cell, arrays, record)}
        if cell.grid != "cliffs":
            builders.update((name, self.family.peers[name]) for name in self.names)
        works = {}
        for name, build in builders.items():
            try:
                work = build(cell, arrays, self.timer)
                if work is not None:
                    record["error"][name] = self.checked(name, work, cell, arrays, want, rows)
                    works[name] = work
            except Exception as error:  # a peer's failure of whatever kind is a line in the report
                record["left_out"][name] = family.one_line(error)
                self.say(f"{cell}: {name} left out: {record['left_out'][name]}")
                torch.cuda.synchronize()  # raises when the GPU's context is lost: then nothing more can be measured
        measured = self.timer.measure({**copies, **works}, rounds, before=arrays.restore)
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
                    cells[index] = self.measure(family.Cell(*results.key(cell)), rounds)
                except Exception as error:
                    self.say(f"{results.title(cell)}: not measured again: {family.one_line(error)}")
