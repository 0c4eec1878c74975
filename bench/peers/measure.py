"""Measures one problem: its arrays, Tunesmith's plan, the copy and every peer. Each is checked before it is timed."""
import concurrent.futures
import functools
import os

import torch

import copies
import family
import results
import samples
import timing
import tunesmith

CLIFF_TRAFFIC = 64 * copies.MIB  # all widths of a sweep are divided by the same copy


class Bench:
    """An engine, a timer and what was said already."""

    def __init__(self, args, of, names, say):
        self.family, self.names, self.say, self.said = of, names, say, set()
        self.config, self.mode, self.tunes = args.config, args.mode, args.mode == "tune" and not args.config
        # No shipped records: the figures are of what this engine finds.
        self.engine = tunesmith.Engine(args.library, effort=args.effort, mode=args.mode, cache_file=args.cache,
                                       system_caches="", tune_budget_s=args.tune_budget)
        self.library = args.library
        self.timer = timing.Timer()
        self.stream = torch.cuda.current_stream().cuda_stream

    @functools.cached_property
    def exact(self):
        """An engine without tuning, for drawn shapes only."""
        return tunesmith.untuned(self.library, "exact")

    def compile_ahead(self, cells):
        """Compiles the kernels of these cells on all cores. Only default configurations are known before the cells are
        measured."""
        if not self.family.ahead or self.mode != "off" or self.config:
            return
        problems = {repr(problem): problem for cell in cells for problem in self.family.ahead(cell)}

        def compiled(problem):
            op, fields = problem
            try:
                self.engine.plan(op, **fields)  # the engine keeps the binary
            except Exception:  # the cell reports it
                pass

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compiled, problems.values()))

    def once(self, line):
        if line not in self.said:
            self.said.add(line)
            self.say(line)

    def checked(self, name, work, cell, arrays, want, rows):
        """Runs `work` once and returns its largest error; raises if one is too large."""
        arrays.reset()
        result = work()
        return arrays.worst_error(arrays.outputs if result is None else result, rows, want, cell.dtype, name == results.OWN)

    def own(self, cell, arrays, record):
        """Returns Tunesmith's launcher and writes its configuration to the record."""
        plan = self.engine.plan(arrays.op, config=self.config, **{**cell.fields, **arrays.fields})
        record.update(config=plan.config, origin=plan.origin, tune_s=plan.tune_s)
        launch = plan.launcher(*arrays.operands, stream=self.stream)
        if not arrays.first:
            return launch
        op, fields, operands = arrays.first
        mode = {} if arrays.first_timed else {"mode": tunesmith.MODES["off"]}
        first = self.engine.plan(op, **mode, **fields).launcher(*operands, stream=self.stream)
        first()
        if not arrays.first_timed:
            return launch

        def both():
            first()
            launch()
        return both

    def also_timed(self, cell, arrays, record):
        """Returns further launchers of Tunesmith that are only timed: a cell of their own checks them. For shapes that a seed
        draws, this includes two kernels without tuning: of the width and of its bucket."""
        works = {name: self.engine.plan(arrays.op, config=self.config, **fields).launcher(*operands, stream=self.stream)
                 for name, (fields, operands) in arrays.also_timed.items()}
        if self.tunes and cell.grid in samples.BYTES:
            off = tunesmith.MODES["off"]
            for name, engine, fact in ((results.DEFAULT, self.exact, "default_config"),
                                       (results.BUCKET, self.engine, "bucket_config")):
                untuned = engine.plan(arrays.op, mode=off, **{**cell.fields, **arrays.fields})
                record[fact] = untuned.config
                works[name] = untuned.launcher(*arrays.operands, stream=self.stream)
        return works

    def measure(self, cell, rounds):
        """Returns the record of one cell."""
        arrays = self.family.make(cell)
        rows = family.some_rows(cell.rows, arrays.checked_rows)
        want = arrays.exact(rows)
        record = dict(vars(cell), bytes=arrays.bytes, copy_kind=arrays.copy_kind, error={}, left_out={})
        record.update((name, value) for name, value in (("flops", arrays.flops), ("baseline", arrays.baseline)) if value)
        copy_works = self.copies(cell, arrays, record) if arrays.copy_kind and arrays.timed else {}
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
            except Exception as error:  # any failure of a peer is a line in the report
                record["left_out"][name] = family.one_line(error)
                self.say(f"{cell}: {name} left out: {record['left_out'][name]}")
                torch.cuda.synchronize()  # raises if the GPU's context is lost: nothing more can be measured then
        if results.OWN in works:
            works.update(self.also_timed(cell, arrays, record))
        measured = {}
        if arrays.timed:
            measured = self.timer.measure({**copy_works, **works}, rounds, before=arrays.restore, flush=not arrays.flops,
                                          twice=("copy", results.OWN, arrays.baseline))
        for fact in ("us", "spread", "samples"):
            record[fact] = {name: value[fact] for name, value in measured.items()}
        return record

    def copies(self, cell, arrays, record):
        """Returns the copies that are timed with a cell and writes to the record what they are."""
        # A drawn problem is compared with a copy of all its arrays: a row of few classes has a target and two results, too.
        traffic = {"cliffs": CLIFF_TRAFFIC, samples.GRID: arrays.bytes}.get(cell.grid, 0)
        works, record["copy_bytes"], facts = copies.make(self.engine, arrays, self.timer, self.stream, traffic)
        record.update(facts)
        if "copy_tune_s" not in facts:
            self.once(f"Tunesmith's copy is replaced by {', '.join(works)}: {facts['copy_config']}")
        return works

    def again(self, cells, rounds):
        """Measures both sides of every cliff again, in place, so that noise does not count as a cliff."""
        doubtful = {results.key(cell) for sweep in results.sweeps(cells).values()
                    for drop, *pair in results.drops(sweep) if drop > results.CLIFF for cell in pair}
        for index, cell in enumerate(cells):
            if results.key(cell) in doubtful:
                try:
                    cells[index] = self.measure(results.key(cell), rounds)
                except Exception as error:
                    self.say(f"{results.title(cell)}: not measured again: {family.one_line(error)}")
