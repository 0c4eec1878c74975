"""Compiles the peers' kernels in several processes before anything is measured.

The results are in the disk caches of Triton and torch.compile. This saves minutes of a GPU machine's time; kernels that fail
to compile here are compiled on first use.
"""
import os
import subprocess
import sys
import time

import torch


class FirstOf:
    """Replaces timing.Timer: launches every candidate once, which compiles it, and measures nothing."""

    @staticmethod
    def fastest(candidates, before=None):
        for work in candidates.values():
            try:
                work()
            except Exception:  # not a candidate later either
                continue
        return next(iter(candidates))


def configure():
    """Makes torch.compile measure in the measuring process instead of taking what it measured on a busy GPU."""
    try:
        import torch._inductor.config
        torch._inductor.config.autotune_local_cache = False
    except (ImportError, AttributeError):
        pass


def work(of, cells, names, index, count):
    """Compiles every count-th problem of the family `of`, in a process of run()."""
    configure()
    for cell in cells[index::count]:
        if cell.grid == "cliffs":
            continue
        try:
            with torch.no_grad():
                arrays = of.make(cell)
                for name in names:
                    try:
                        launch = of.peers[name](cell, arrays, FirstOf)
                        if launch is not None:
                            launch()
                    except Exception:
                        continue
                torch.cuda.synchronize()
        except Exception:  # out of memory because of the other processes: this problem is compiled later
            pass
        arrays = launch = None
        torch.cuda.empty_cache()
    return 0


def run(jobs, limit_s):
    """Runs `jobs` processes of this command with --compile-slice for at most `limit_s` seconds. Returns the seconds."""
    started = time.time()
    command = [sys.executable, os.path.abspath(sys.argv[0]), *sys.argv[1:]]
    running = [subprocess.Popen(command + ["--compile-slice", f"{index}/{jobs}"], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL) for index in range(jobs)]
    for process in running:
        try:
            process.wait(max(0.0, started + limit_s - time.time()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return time.time() - started
