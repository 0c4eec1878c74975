#!/usr/bin/env bash
# gpu_test.sh ENVIRONMENT: runs test_gpu_*.py with the Python of scripts/test_torch.sh's environment, or else with python3. Exit
# status 77: there is no GPU, or no PyTorch that sees it.
set -euo pipefail
python=python3
[[ ! -x $1/bin/python ]] || python=$1/bin/python
if ! "$python" -c 'import pytest, sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  echo "skipped: $python has no PyTorch and pytest, or no GPU"
  exit 77
fi
exec "$python" -m pytest -q -p no:cacheprovider "$(dirname "${BASH_SOURCE[0]}")"/test_gpu_*.py
