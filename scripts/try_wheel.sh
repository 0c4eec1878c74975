#!/usr/bin/env bash
# try_wheel.sh WHEEL [PYTHON]: installs a wheel into a fresh virtual environment and uses it there: a softmax on the CPU, checked
# against float64, and the command line.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
wheel=$(realpath "$1")

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"${2:-python3}" -m venv "$scratch/environment"
"$scratch/environment/bin/pip" install --quiet --disable-pip-version-check "${wheel}[test]"
[[ -n $(find "$scratch/environment" -path '*/tunesmith/_core.pyi') ]] || { echo "try_wheel.sh: the wheel has no stub" >&2; exit 1; }
for file in launcher.cpp launch_table.h launch_target.h; do
  [[ -n $(find "$scratch/environment" -path "*/tunesmith/torch/native/$file") ]] || { echo "try_wheel.sh: the wheel has no $file" >&2; exit 1; }
done
cp api/python/tests/fresh_environment.py "$scratch"
cd "$scratch" # not in the checkout, whose files must not be found
env -u PYTHONPATH TUNESMITH_CACHE= "$scratch/environment/bin/python" "$scratch/fresh_environment.py"
env -u PYTHONPATH -u TUNESMITH_SYSTEM_CACHE "$scratch/environment/bin/tunesmith" doctor >doctor.txt
grep -q "$scratch/environment/.*/shipped.db" doctor.txt || { cat doctor.txt; echo "try_wheel.sh: the wheel's records are not found" >&2; exit 1; }
echo "the wheel works in a fresh environment"
