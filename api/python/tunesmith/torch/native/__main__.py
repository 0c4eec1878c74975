"""python -m tunesmith.torch.native [--compiler c++]: compiles the launcher for the installed PyTorch."""

from __future__ import annotations

import argparse
import sys

from . import build, load

parser = argparse.ArgumentParser(prog="python -m tunesmith.torch.native", description="Compile the launcher.")
parser.add_argument("--compiler", default="c++", help="a C++20 compiler; default c++")
try:
    print(build(parser.parse_args().compiler))
except RuntimeError as error:
    sys.exit(f"tunesmith.torch.native: {error}")
load.cache_clear()
sys.exit(0 if load() is not None else "tunesmith.torch.native: the launcher was compiled, but does not load")
