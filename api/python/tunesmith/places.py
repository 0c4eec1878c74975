"""Where pip installed what Tunesmith opens at run time."""

from __future__ import annotations

import sys
from pathlib import Path

#: The command-line program of this package.
PROGRAM = Path(__file__).parent / "bin" / "tunesmith"


def nvidia_folders() -> list[Path]:
    """Return the folders of sys.path with NVIDIA's packages, which hold NVRTC and cuBLAS."""
    folders = dict.fromkeys(Path(entry).resolve() for entry in sys.path if entry)
    return [folder for folder in folders if (folder / "nvidia").is_dir()]
