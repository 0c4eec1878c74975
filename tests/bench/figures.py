"""What tests of bench/peers share: its modules on the path, and records of cells."""
import os
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PEERS = os.path.join(ROOT, "bench", "peers")
PLOTS = os.path.join(ROOT, "bench", "plots")
sys.path.insert(0, PEERS)
sys.dont_write_bytecode = True

from suites import attention_grids

RUN = {"gpu": "a GPU", "torch": "1", "triton": "2", "date": "2026-01-01T00:00:00", "command": "attention.py"}


def record(cell, **times):
    """Returns a cell as measure.py writes it; `times` in microseconds."""
    facts = {"bytes": attention_grids.kv_bytes(cell), "copy_kind": "", "baseline": "cudnn", "flops": attention_grids.flops(cell)}
    if cell.grid == "decode":
        facts.update(flops=0, copy_kind="read", copy_bytes=facts["bytes"])
    if cell.grid == "mods":
        facts["baseline"] = "flex"
    return dict(vars(cell), **facts, error=dict.fromkeys(times, 0.5), left_out={}, us=times, config="variant=simt")
