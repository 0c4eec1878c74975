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
        self.config = args.config
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
        return arrays.worst_error(arrays.outputs if result is None else result, rows, want, cell.dtype, name == results.OWN)

    def own(self, cell, arrays, record):
        """Tunesmith's launcher; writes to the record which configuration it is."""
        plan = self.engine.plan(arrays.op, config=self.config, **{**cell.fields, **arrays.fields})
        record.update(config=plan.config, origin=plan.origin, tune_s=plan.tune_s)
        return plan.launcher(*arrays.operands, stream=self.stream)

    def beside(self, arrays):
        """Launchers of Tunesmith's that are timed only: a cell of their own checks them."""
        return {name: self.engine.plan(arrays.op, config=self.config, **fields).launcher(*operands, stream=self.stream)
                for name, (fields, operands) in arrays.beside.items()}

    def measure(self, cell, rounds):
        """The record of one cell."""
        arrays = self.family.make(cell)
        rows = family.some_rows(cell.rows, arrays.checked_rows)
        want = arrays.exact(rows)
        record = dict(vars(cell), bytes=arrays.bytes, roof=arrays.roof, error={}, left_out={})
        record.update((name, value) for name, value in (("flops", arrays.flops), ("baseline", arrays.baseline)) if value)
        copies = self.roof(cell, arrays, record) if arrays.roof and arrays.timed else {}
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
        if results.OWN in works:
            works.update(self.beside(arrays))
        measured = {}
        if arrays.timed:
            measured = self.timer.measure({**copies, **works}, rounds, before=arrays.restore, flush=not arrays.flops,
                                          twice=("copy", results.OWN, arrays.baseline))
        for fact in ("us", "spread", "samples"):
            record[fact] = {name: value[fact] for name, value in measured.items()}
        return record

    def roof(self, cell, arrays, record):
        """The copies that are timed beside a cell; writes to the record what they are."""
        copies, record["copy_bytes"], facts = roofs.make(self.engine, arrays, self.timer, self.stream,
                                                         CLIFF_TRAFFIC if cell.grid == "cliffs" else 0)
        record.update(facts)
        if "copy_tune_s" not in facts:
            self.once(f"no roof of Tunesmith's, {', '.join(copies)} instead: {facts['copy_config']}")
        return copies

    def again(self, cells, rounds):
        """Measures both sides of every cliff again, in place: a cliff is a finding, noise is not."""
        doubtful = {results.key(cell) for sweep in results.sweeps(cells).values()
                    for drop, *pair in results.drops(sweep) if drop > results.CLIFF for cell in pair}
        for index, cell in enumerate(cells):
            if results.key(cell) in doubtful:
                try:
                    cells[index] = self.measure(results.key(cell), rounds)
                except Exception as error:
                    self.say(f"{results.title(cell)}: not measured again: {family.one_line(error)}")
