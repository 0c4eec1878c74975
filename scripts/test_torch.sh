#!/usr/bin/env bash
# test_torch.sh [pytest arguments]: tests tunesmith.torch on the CPU with the package of build/debug. The first run makes the
# environment build/torch-environment with PyTorch: from its index of CPU builds, or else from PyPI, which is larger.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
source scripts/random_seed.sh

environment=build/torch-environment
cmake --preset debug >/dev/null
cmake --build --preset debug --target _core _core_stub tunesmith_cli
if [[ ! -e $environment/complete-3 ]]; then
  echo "test_torch.sh: installing PyTorch into $environment"
  python3 -m venv "$environment"
  pip=("$environment/bin/python" -m pip install --quiet --disable-pip-version-check)
  "${pip[@]}" --retries 0 --index-url https://download.pytorch.org/whl/cpu 'torch>=2.10' 2>/dev/null || "${pip[@]}" 'torch>=2.10'
  "${pip[@]}" pytest pytest-xdist numpy transformers
  touch "$environment/complete-3"
fi
# The kernels' binaries and the native launcher are kept between runs.
export PYTHONPATH=build/debug/python PYTHONDONTWRITEBYTECODE=1 TUNESMITH_CACHE="$PWD/build/torch-tests.db"
export XDG_CACHE_HOME=$PWD/build/torch-cache
"$environment/bin/python" -c 'import sys; from tunesmith.torch import native; sys.exit(not native.library().exists())' ||
  "$environment/bin/python" -m tunesmith.torch.native >/dev/null
tests=("$environment/bin/python" -m pytest -q -p no:cacheprovider --numprocesses auto --dist worksteal)
"${tests[@]}" "${@:-api/python/tests/torch}"
# Without the native launcher, which not every user compiles.
(($#)) || "${tests[@]}" --portable api/python/tests/torch/test_{operators,rows,losses,guards}.py
