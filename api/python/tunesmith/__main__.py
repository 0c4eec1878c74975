"""The command line: `tunesmith` and `python -m tunesmith` run the program of this package."""

from __future__ import annotations

import os
import signal
import sys

from .places import PROGRAM, nvidia_folders


def main() -> None:
    """Replace this process by the program. It finds NVRTC where the Python package finds it."""
    environment = dict(os.environ)
    libraries = [str(path) for folder in nvidia_folders() for path in sorted(folder.glob("nvidia/*/lib"))]
    found = [entry for entry in environment.get("LD_LIBRARY_PATH", "").split(":") if entry]
    if libraries:
        environment["LD_LIBRARY_PATH"] = ":".join(found + libraries)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # which Python ignores: `tunesmith ... | head` ends without an error
    os.execve(PROGRAM, ["tunesmith", *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
