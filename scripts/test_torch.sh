#!/usr/bin/env bash
# test_torch.sh [pytest arguments]: tests tunesmith.torch on the CPU with the package of build/debug. The first run makes the
# environment build/torch-environment with PyTorch: from its index of CPU builds, or else from PyPI, which is larger.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh

environment=build/torch-environment
cmake --preset debug >/dev/null
cmake --build --preset debug --target _core _core_stub tunesmith_cli
if [[ ! -e $environment/complete ]]; then
  echo "test_torch.sh: installing PyTorch into $environment"
  python3 -m venv "$environment"
  pip=("$environment/bin/python" -m pip install --quiet --disable-pip-version-check)
  "${pip[@]}" --retries 0 --index-url https://download.pytorch.org/whl/cpu 'torch>=2.10' 2>/dev/null || "${pip[@]}" 'torch>=2.10'
  "${pip[@]}" pytest numpy
  touch "$environment/complete"
fi
# The kernels' binaries are kept between runs.
env PYTHONPATH=build/debug/python PYTHONDONTWRITEBYTECODE=1 TUNESMITH_CACHE="$PWD/build/torch-tests.db" \
  "$environment/bin/python" -m pytest -q -p no:cacheprovider "${@:-api/python/tests/torch}"
