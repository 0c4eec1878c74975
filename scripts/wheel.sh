#!/usr/bin/env bash
# wheel.sh: builds the Python package's wheel in dist/ for this system, and uses it in a fresh virtual environment.
# portable_wheel.sh builds one for older systems, too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rm -rf dist
python3 -m pip wheel . --quiet --no-deps --wheel-dir dist
wheel=(dist/tunesmith-*.whl)
echo "built ${wheel[0]} ($(du -h "${wheel[0]}" | cut -f1))"
scripts/try_wheel.sh "${wheel[0]}"
