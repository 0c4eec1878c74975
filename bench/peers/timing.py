"""Device time of several implementations of one problem, interleaved, each launch behind a flushed L2 cache."""
import math
import statistics
import time

import torch

FLUSH_BYTES = 256 << 20
# What is measured twice a round: every figure is a ratio with one of these.
TWICE = ("copy", "tunesmith")


def events(count):
    return [torch.cuda.Event(enable_timing=True) for _ in range(count)]


class Timer:
    """Measures on the current stream. The flush writes 256 MB, as often as it takes to keep the GPU busy while Python makes the
    next launch: a launch that comes too late would be measured as device time."""

    def __init__(self, device="cuda"):
        self._buffer = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device=device)
        self._buffer.zero_()
        start, stop = events(2)
        start.record()
        for _ in range(10):
            self._buffer.zero_()
        stop.record()
        torch.cuda.synchronize()
        self.flush_us = start.elapsed_time(stop) * 100

    def flush(self, passes):
        for _ in range(passes):
            self._buffer.zero_()

    def host_us(self, work):
        """How long Python needs to launch `work`: the slowest of three, with an event as in a measurement."""
        slowest = 0.0
        for _ in range(3):
            stop, = events(1)
            torch.cuda.synchronize()
            begin = time.perf_counter()
            work()
            stop.record()
            slowest = max(slowest, time.perf_counter() - begin)
        torch.cuda.synchronize()
        return slowest * 1e6

    def passes(self, works):
        """Writes of the buffer that outlast the slowest launch by half, at most 8 (a launch that synchronizes never hides)."""
        slowest = max(self.host_us(work) for work in works.values())
        return min(8, max(1, math.ceil(1.5 * slowest / self.flush_us)))

    def measure(self, works, rounds=21, long_rounds=7, long_us=1000.0, before=None):
        """{name: {"us": median, "spread": interquartile range over median, "samples": count}}. A warm-up round comes first.
        Those that take longer than `long_us` are measured in `long_rounds` rounds only, all of them when the copy does; the
        order rotates and turns round from round to round.

        `before` runs ahead of every launch, outside of its time and ahead of the flush: whatever overwrites its input gets it
        back as it was, so that each launch sees the same values (kernels may take shortcuts that depend on them), and L2 keeps
        nothing of it."""
        passes = self.passes(works)
        samples = {name: [] for name in works}
        todo = {}
        sequence = list(works) + [name for name in TWICE if name in works]
        round_number = 0
        while round_number == 0 or round_number <= max(todo.values()):
            turn = round_number % len(sequence)
            order = sequence[turn:] + sequence[:turn]
            if round_number % 2:
                order.reverse()
            recorded = []
            for name in order:
                if round_number > todo.get(name, rounds):
                    continue
                start, stop = events(2)
                if before:
                    before()
                self.flush(passes)
                start.record()
                works[name]()
                stop.record()
                recorded.append((name, start, stop))
            torch.cuda.synchronize()
            times = [(name, start.elapsed_time(stop) * 1e3) for name, start, stop in recorded]
            if round_number == 0:
                slow = {name for name, us in times if us > long_us}
                todo = {name: min(rounds, long_rounds) if name in slow and name not in TWICE else rounds for name in works}
                if slow & set(TWICE):
                    todo = dict.fromkeys(works, min(rounds, long_rounds))
            else:
                for name, us in times:
                    samples[name].append(us)
            round_number += 1
        return {name: summary(us) for name, us in samples.items()}

    def fastest(self, candidates, rounds=3, before=None):
        """The key of the fastest of {key: work}; those that fail are left out. When all do, the last one's error is raised.
        `before`: see measure."""
        works, failure = {}, None
        for key, work in candidates.items():
            try:
                work()
                torch.cuda.synchronize()
                works[key] = work
            except Exception as error:  # more shared memory or registers than there are: not a candidate
                failure = error
        if not works:
            raise failure
        if len(works) == 1:
            return next(iter(works))
        measured = self.measure(works, rounds, min(rounds, 2), before=before)
        return min(measured, key=lambda key: measured[key]["us"])


def summary(us):
    """Median, relative spread and number of samples, microseconds."""
    middle = statistics.median(us)
    spread = 0.0
    if len(us) >= 4 and middle > 0:
        low, _, high = statistics.quantiles(us, n=4)
        spread = (high - low) / middle
    return {"us": middle, "spread": spread, "samples": len(us)}
