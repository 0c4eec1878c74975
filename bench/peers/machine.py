"""Facts about the machine and this checkout that belong to every figure."""
import datetime
import os
import platform
import shlex
import subprocess
import sys

import torch
import triton


def smi():
    """Returns driver and clocks as reported by nvidia-smi; {} without it."""
    fields = ("driver_version", "clocks.sm", "clocks.mem", "power.limit")
    try:
        text = subprocess.run(["nvidia-smi", "--query-gpu=" + ",".join(fields), "--format=csv,noheader"], text=True,
                              capture_output=True, timeout=20).stdout
        return dict(zip(fields, (value.strip() for value in text.splitlines()[0].split(","))))
    except (OSError, IndexError, subprocess.SubprocessError):
        return {}


def commit():
    """Returns the checkout's commit; "" outside of a checkout."""
    try:
        done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=os.path.dirname(os.path.abspath(__file__)),
                              text=True, capture_output=True, timeout=20)
        return done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def facts(version):
    """Returns the head of a JSON file. `version`: Tunesmith's."""
    return {"gpu": torch.cuda.get_device_name(), **smi(), "torch": torch.__version__, "triton": triton.__version__,
            "cudnn": torch.backends.cudnn.version(),
            "cuda": torch.version.cuda, "tunesmith": version, "commit": commit(), "python": platform.python_version(),
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "command": shlex.join(["python3", *sys.argv])}
