"""Device time of several implementations of one problem, interleaved in shuffled order.

L2 is flushed before each launch, of lines that an evict_last policy keeps as well. If arithmetic bounds the problem, a few
launches follow each other on a preheated GPU instead.
"""
import ctypes
import math
import random
import statistics
import time

import torch

FLUSH_BYTES = 256 << 20
# Measured twice per round, because every figure is a ratio with one of them.
TWICE = ("copy", "tunesmith")
LONG_US = 1000.0              # longer works are measured in fewer rounds
LONG_US_UNFLUSHED = 20000.0   # the same without a flush
PREHEAT_S, REHEAT_S = 3.0, 0.3
SAMPLE_US = 1000.0            # without a flush: duration of a sample, unless MAX_LAUNCHES take less
MAX_LAUNCHES = 8


def events(count):
    return [torch.cuda.Event(enable_timing=True) for _ in range(count)]


class Timer:
    """Measures on the current stream.

    The flush writes 256 MB often enough to keep the GPU busy until Python has made the next launch; otherwise the time of
    the host would be measured as device time."""

    def __init__(self, device="cuda"):
        self._buffer = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device=device)
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._buffer.zero_()
        self.flush_us = self.device_us(self._buffer.zero_, 10)
        self._preheat_s = PREHEAT_S

    @staticmethod
    def device_us(work, count=1, ahead=0):
        """Returns the device time of one of `count` launches in a row, after `ahead` that do not count."""
        start, stop = events(2)
        for _ in range(ahead):
            work()
        start.record()
        for _ in range(count):
            work()
        stop.record()
        torch.cuda.synchronize()
        return start.elapsed_time(stop) * 1e3 / count

    def flush(self, passes):
        """Evicts everything from L2. Writing does not evict what a kernel before loaded with an evict_last policy."""
        torch.cuda.synchronize()  # a kernel that still runs would add lines after the reset
        if self._driver.cuCtxResetPersistingL2Cache() != 0:
            raise RuntimeError("cuCtxResetPersistingL2Cache failed")
        for _ in range(passes):
            self._buffer.zero_()

    def host_us(self, work):
        """Returns how long Python takes to launch `work`: the slowest of three, with an event as in a measurement."""
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
        """Returns how many flushes last 1.5 times as long as the slowest launch; at most 8, because works may
        synchronize."""
        slowest = max(self.host_us(work) for work in works.values())
        return min(8, max(1, math.ceil(1.5 * slowest / self.flush_us)))

    def preheat(self, works):
        """Runs all works until clocks and temperature settle, as on a busy GPU; a cold GPU favours the work that runs first.

        Takes seconds for the first problem, less for the next ones."""
        until, self._preheat_s = time.perf_counter() + self._preheat_s, REHEAT_S
        while time.perf_counter() < until:
            for work in works.values():
                work()
            torch.cuda.synchronize()

    def in_a_row(self, works):
        """Returns {name: (launches ahead, launches that count)} for works without a flush.

        Launches ahead, at least one, keep the GPU busy until Python has made the others."""
        found = {}
        for name, work in works.items():
            host, device = self.host_us(work), self.device_us(work, 1, ahead=1)
            count = min(MAX_LAUNCHES, max(1, math.ceil(SAMPLE_US / device)))
            found[name] = (min(32, max(1, math.ceil(1.5 * host * count / device) - count + 1)), count)
        return found

    def launches(self, works, before, flush):
        """Returns {name: (function that runs ahead, launches that count)}."""
        if flush:
            passes = self.passes(works)

            def ahead():
                if before:
                    before()
                self.flush(passes)

            return dict.fromkeys(works, (ahead, 1))
        if before:
            raise ValueError("works that restore their inputs are measured with a flush")
        self.preheat(works)

        def repeated(work, count):
            return lambda: [work() for _ in range(count)]

        return {name: (repeated(works[name], ahead), count) for name, (ahead, count) in self.in_a_row(works).items()}

    def measure(self, works, rounds=21, long_rounds=7, before=None, flush=True, twice=TWICE):
        """Returns {name: {"us": median, "spread": interquartile range over median, "samples": count}}.

        A warm-up round comes first. Every round has its own seeded order. Works of `twice` are measured twice per round.
        Works longer than LONG_US (LONG_US_UNFLUSHED without a flush) get only `long_rounds` rounds; if one of `twice` is
        that long, all works do.

        `before` runs before the flush of every launch, outside of the timed part. It restores inputs that a work overwrites,
        so that each launch sees the same values: kernels may take shortcuts that depend on them.

        Without `flush` a sample is the mean of a few launches in a row, after at least one that does not count. This is for
        works that are bound by arithmetic and do not depend on the contents of L2."""
        if not works:
            return {}
        launches = self.launches(works, before, flush)
        samples, todo = {name: [] for name in works}, {}
        sequence = list(works) + [name for name in twice if name in works]
        shuffled, round_number = random.Random(0), 0
        while round_number == 0 or round_number <= max(todo.values()):
            shuffled.shuffle(sequence)
            recorded = []
            for name in sequence:
                if round_number > todo.get(name, rounds):
                    continue
                start, stop = events(2)
                ahead, count = launches[name]
                ahead()
                start.record()
                for _ in range(count):
                    works[name]()
                stop.record()
                recorded.append((name, start, stop, count))
            torch.cuda.synchronize()
            times = [(name, start.elapsed_time(stop) * 1e3 / count) for name, start, stop, count in recorded]
            if round_number == 0:
                slow = {name for name, us in times if us > (LONG_US if flush else LONG_US_UNFLUSHED)}
                todo = {name: min(rounds, long_rounds) if name in slow and name not in twice else rounds for name in works}
                if slow & set(twice):
                    todo = dict.fromkeys(works, min(rounds, long_rounds))
            else:
                for name, us in times:
                    samples[name].append(us)
            round_number += 1
        return {name: summary(us) for name, us in samples.items()}

    def fastest(self, candidates, rounds=3, before=None):
        """Returns the key of the fastest of {key: work}, without those that fail; raises the last error if all fail.

        `before`: see measure."""
        works, failure = {}, None
        for key, work in candidates.items():
            try:
                work()
                torch.cuda.synchronize()
                works[key] = work
            except Exception as error:  # too much shared memory or too many registers
                failure = error
        if not works:
            raise failure
        if len(works) == 1:
            return next(iter(works))
        measured = self.measure(works, rounds, min(rounds, 2), before=before)
        return min(measured, key=lambda key: measured[key]["us"])


def summary(us):
    """Returns median, relative spread and number of samples of microseconds."""
    middle = statistics.median(us)
    spread = 0.0
    if len(us) >= 4 and middle > 0:
        low, _, high = statistics.quantiles(us, n=4)
        spread = (high - low) / middle
    return {"us": middle, "spread": spread, "samples": len(us)}
