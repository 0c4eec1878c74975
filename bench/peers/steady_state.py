"""Device time of works on a busy GPU, in alternating blocks, with the clock and the power of each work.

Power limits long matrix products: clocks fall during the first seconds, and by different amounts for different works. A
figure of a few launches on a cool GPU says little about a training step, and 3% are less than its drift.
"""
import math
import threading
import time

import timing

SAMPLE_S = 0.02
WARM_BLOCKS = 2  # of each work, which do not count


class Conditions:
    """Samples the SM clock and the power of the GPU in a thread while a block runs; knows nothing without NVML."""

    def __init__(self):
        self.of, self._samples = None, {}
        try:
            import pynvml
            pynvml.nvmlInit()
            self._nvml, self._device = pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)
        except Exception:
            self._nvml = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopped.set()
        self._thread.join()

    def _run(self):
        while self._nvml and not self._stopped.wait(SAMPLE_S):
            name = self.of
            if name is not None:
                clock = self._nvml.nvmlDeviceGetClockInfo(self._device, self._nvml.NVML_CLOCK_SM)
                watts = self._nvml.nvmlDeviceGetPowerUsage(self._device) / 1000
                self._samples.setdefault(name, []).append((clock, watts))

    def means(self, name):
        """Returns {"sm_mhz": ..., "watts": ...} of a work's blocks; {} if nothing is known."""
        samples = self._samples.get(name)
        if not samples:
            return {}
        clock, watts = (sum(values) / len(values) for values in zip(*samples))
        return {"sm_mhz": round(clock), "watts": round(watts)}


def measure(works, seconds, block_s=0.5):
    """Returns {name: timing.summary() of the means of blocks, with sm_mhz and watts}.

    Works run in blocks of `block_s` seconds one after the other, in an order that rotates, until each has run for
    `seconds`."""
    names = list(works)
    counts = {name: max(1, math.ceil(block_s * 1e6 / timing.Timer.device_us(work, 2, ahead=1)))
              for name, work in works.items()}
    blocks, samples = max(3, round(seconds / block_s)), {name: [] for name in names}
    with Conditions() as conditions:
        for block in range(-WARM_BLOCKS, blocks):
            for i in range(len(names)):
                name = names[(i + block) % len(names)]
                conditions.of = name if block >= 0 else None
                us = timing.Timer.device_us(works[name], counts[name])
                conditions.of = None
                if block >= 0:
                    samples[name].append(us)
    return {name: {**timing.summary(us), **conditions.means(name)} for name, us in samples.items()}
