#!/usr/bin/env bash
# wheel.sh: builds the Python package's wheel in dist/, installs it into a fresh virtual environment, and runs a kernel with
# it: a softmax on the CPU, checked against float64, and the command line.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rm -rf dist
python3 -m pip wheel . --quiet --no-deps --wheel-dir dist
wheel=(dist/tunesmith-*.whl)
echo "built ${wheel[0]} ($(du -h "${wheel[0]}" | cut -f1))"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/environment"
"$scratch/environment/bin/pip" install --quiet --disable-pip-version-check "${wheel[0]}[test]"
[[ -n $(find "$scratch/environment" -path '*/tunesmith/_core.pyi') ]] || { echo "wheel.sh: the wheel has no stub" >&2; exit 1; }
for file in launcher.cpp launch_table.h launch_target.h; do
  [[ -n $(find "$scratch/environment" -path "*/tunesmith/torch/native/$file") ]] || { echo "wheel.sh: the wheel has no $file" >&2; exit 1; }
done
cp api/python/tests/fresh_environment.py "$scratch"
cd "$scratch" # not in the checkout, whose files must not be found
env -u PYTHONPATH TUNESMITH_CACHE= "$scratch/environment/bin/python" "$scratch/fresh_environment.py"
env -u PYTHONPATH -u TUNESMITH_SYSTEM_CACHE "$scratch/environment/bin/tunesmith" doctor >doctor.txt
grep -q "$scratch/environment/.*/shipped.db" doctor.txt || { cat doctor.txt; echo "wheel.sh: the wheel's records are not found" >&2; exit 1; }
echo "the wheel works in a fresh environment"
