"""What the import costs and brings along."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_neither_torch_nor_jax_nor_numpy_is_imported() -> None:
    code = "import tunesmith, sys; print([name for name in ('torch', 'jax', 'numpy') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_command_line_runs() -> None:
    done = subprocess.run([sys.executable, "-m", "tunesmith", "ops"], capture_output=True, text=True, check=True)
    assert "rms_norm" in done.stdout


def test_the_exit_code_of_the_command_line_is_the_programs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tunesmith", "run", "softmax", "--rows", "x"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "rows" in done.stderr


def test_the_import_is_cheap() -> None:
    """It takes about as long as importing asyncio, a third of importing NumPy."""

    def processor_s(module: str) -> float:
        code = f"import time; start = time.process_time(); import {module}; print(time.process_time() - start)"
        return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)

    # Interleaved, so that both meet the same clock and the same neighbours; the first runs read files. It is 50 ms where
    # asyncio takes 37.
    runs = [(processor_s("tunesmith"), processor_s("asyncio")) for _ in range(7)]
    assert min(run[0] for run in runs) <= 50 / 37 * min(run[1] for run in runs), runs


def test_the_command_line_gets_nvidias_folders(tmp_path: Path) -> None:
    """NVRTC is found in nvidia/*/lib of the environment, by the engine and by the command line."""
    for folder in ("cu13", "cuda_nvrtc"):
        (tmp_path / "nvidia" / folder / "lib").mkdir(parents=True)
    code = (
        "import os, sys; from tunesmith import __main__, places\n"
        "os.execve = lambda program, arguments, environment: print(program, environment['LD_LIBRARY_PATH'])\n"
        "sys.argv = ['tunesmith']; __main__.main(); print(places.nvidia_folders()[0])"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}", "LD_LIBRARY_PATH": "/first"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    (program, libraries), folder = done.stdout.split("\n")[0].split(), done.stdout.split("\n")[1]
    assert program.endswith("bin/tunesmith")
    folders = libraries.split(":")
    assert folders[0] == "/first"
    assert {str(tmp_path / "nvidia" / one / "lib") for one in ("cu13", "cuda_nvrtc")} <= set(folders)
    assert folder == str(tmp_path)
