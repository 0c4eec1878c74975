"""Compares the kernels that figures were measured on with this version's kernels.

The command line reports a digest of the templates of each operation (current()). A run records the digests of its operations
under "kernels"; a figure is older than its kernel if its digest is not the current one.
"""
import json
import os
import subprocess

import results

# A typical problem of each operation, as arguments of `tunesmith source`.
TYPICAL = {
    "softmax": ("--rows", "4096", "--cols", "4096"),
    "log_softmax": ("--rows", "4096", "--cols", "4096"),
    "softmax_backward": ("--rows", "4096", "--cols", "4096"),
    "log_softmax_backward": ("--rows", "4096", "--cols", "4096"),
    "cross_entropy": ("--rows", "8192", "--cols", "128256"),
    "cross_entropy_backward": ("--rows", "8192", "--cols", "128256"),
    "attention": ("--option", "batch=4", "--option", "heads=16", "--option", "seq_q=4096", "--option", "head_dim=128",
                  "--dtype", "bf16"),
    "attention_backward": ("--option", "batch=4", "--option", "heads=16", "--option", "seq_q=4096", "--option", "head_dim=128",
                           "--dtype", "bf16"),
}
CURRENT, CHANGED, UNKNOWN = "current", "changed", "unknown"


def current(program):
    """Returns {operation: digest of its templates} of `program`, the tunesmith command line."""
    return _listed(program) or {op: _of_source(program, op) for op in TYPICAL}


def _listed(program):
    """Reads the digests of `tunesmith ops --json`; {} if this version does not list them."""
    done = subprocess.run([program, "ops", "--json"], text=True, capture_output=True, timeout=60)
    entries = json.loads(done.stdout) if done.returncode == 0 else []
    return {entry["op"]: entry["templates"] for entry in entries if "templates" in entry}


def _of_source(program, op):
    """Reads the line "templates FILE DIGEST" at the head of a generated source."""
    command = [program, "source", op, *TYPICAL[op], "--arch", "sm_90a"]
    done = subprocess.run(command, text=True, capture_output=True, timeout=60)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    for line in done.stdout.splitlines()[:60]:
        words = line.strip("/* ").split()
        if words[:1] == ["templates"]:
            return words[-1]
    raise RuntimeError(f"{' '.join(command)}: no line 'templates FILE DIGEST'")


def program_of(library):
    """Returns the command line that was built or installed with libtunesmith.so; None if there is none."""
    folder = os.path.dirname(os.path.abspath(library))
    for place in (os.path.join(folder, "cli", "tunesmith"), os.path.join(folder, "tunesmith"),
                  os.path.join(folder, "..", "bin", "tunesmith")):
        if os.access(place, os.X_OK):
            return place
    return None


def recorded(library, ops):
    """Returns what a run records of its operations: {operation: digest}, None for an unknown digest."""
    program, digests = program_of(library), {}
    try:
        digests = current(program) if program else {}
    except (OSError, RuntimeError, subprocess.SubprocessError):
        pass  # the figures are worth more than their digests
    return {op: digests.get(op) for op in ops}


def state(run, digests, ops=None):
    """Returns CURRENT, CHANGED or UNKNOWN: whether the run's figures are of the kernels whose `digests` are given.

    `ops`: only these of the run's operations."""
    kernels = run.get("kernels", {})
    found = [(op, kernels.get(op)) for op in (ops or kernels)]
    if any(digest is not None and digest != digests.get(op) for op, digest in found):
        return CHANGED
    return UNKNOWN if not found or any(digest is None for _, digest in found) else CURRENT


def of_cell(run, cell):
    """Returns the digest of the kernel that a cell was measured with; None if it was not recorded."""
    return cell.get("kernel") if "commit" in cell else run.get("kernels", {}).get(results.tunesmith_op(cell["op"]))


def cell_state(run, cell, digests):
    """Returns the state of one cell, which may have been measured at another commit than the run."""
    digest = of_cell(run, cell)
    if digest is None:
        return UNKNOWN
    return CURRENT if digest == digests.get(results.tunesmith_op(cell["op"])) else CHANGED
