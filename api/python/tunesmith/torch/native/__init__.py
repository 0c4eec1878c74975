"""The launcher for eager calls in C++, with autograd's recording, compiled against the installed PyTorch.

    python -m tunesmith.torch.native [--compiler c++]

compiles it. This takes half a minute, a C++20 compiler and Python's headers. Later processes of this user load it. It lowers
the host time of a call (docs/python.md). Without it, and after an upgrade of PyTorch, the launcher for any PyTorch is used.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import importlib.util
import logging
import os
import platform
import stat
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType

import torch

_SOURCES = ("launcher.cpp", "launch_table.h", "launch_target.h")
_log = logging.getLogger("tunesmith")


def library() -> Path:
    """Return the file of the compiled launcher for this Python, this PyTorch and these sources."""
    digest = hashlib.sha256()
    python = sysconfig.get_config_var("SOABI")
    digest.update(f"{torch.__version__} {torch.version.git_version} {python} {platform.machine()}".encode())
    for source in _SOURCES:
        digest.update(Path(__file__).with_name(source).read_bytes())
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "tunesmith" / "native" / digest.hexdigest()[:16] / "tunesmith_native.so"


def build(compiler: str = "c++") -> Path:
    """Compile the launcher and return its file. Raises RuntimeError with the compiler's output if that fails."""
    target = library()
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    home = Path(torch.__file__).parent
    includes = [home / "include", home / "include/torch/csrc/api/include", sysconfig.get_paths()["include"]]
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        made = Path(scratch) / target.name
        command = [compiler, "-std=c++20", "-O2", "-fPIC", "-shared", "-w", f"-D_GLIBCXX_USE_CXX11_ABI={_cxx11_abi()}"]
        command += [f"-isystem{folder}" for folder in includes]
        command += [str(Path(__file__).with_name("launcher.cpp")), "-o", str(made)]
        command += [f"-L{home / 'lib'}", "-ltorch_python", "-ltorch_cpu", "-lc10"]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except FileNotFoundError as error:
            raise RuntimeError(f"compiler is {compiler}, which was not found; expected a C++20 compiler") from error
        except subprocess.CalledProcessError as error:
            needs = "it needs Python's headers, too (Debian: python3-dev)"
            raise RuntimeError(f"{compiler} failed; {needs}\n{error.stderr}") from error
        made.replace(target)  # other processes see no file or a whole one
    return target


def _cxx11_abi() -> int:
    return int(torch.compiled_with_cxx11_abi())


@functools.cache
def load() -> ModuleType | None:
    """Return the compiled launcher; None if there is none, or if users other than this one and root may write it."""
    path = library()
    if not path.exists():
        return None
    for entry in (path, path.parent):
        status = entry.stat()
        if status.st_uid not in (0, os.geteuid()) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            _log.warning("%s is not used: others than its owner may write it", path)
            return None
    loader = importlib.machinery.ExtensionFileLoader("tunesmith_native", str(path))
    specification = importlib.util.spec_from_loader("tunesmith_native", loader)
    assert specification is not None
    try:
        module = importlib.util.module_from_spec(specification)
        loader.exec_module(module)
    except ImportError as error:
        _log.warning("%s is not used: %s", path, error)
        return None
    return module
