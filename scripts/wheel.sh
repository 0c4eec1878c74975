#!/usr/bin/env bash
# wheel.sh: builds the Python package's wheel in dist/ for this system, and uses it in a fresh virtual environment.
# After `make demo`, its objects come from ccache. portable_wheel.sh builds a wheel for older systems, too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# CMake's name of the compiler, not the name in Python's build: ccache then finds the objects of `make demo`.
export CXX=${CXX:-c++}
rm -rf dist
python3 -m pip wheel . --quiet --no-deps --wheel-dir dist
wheel=(dist/tunesmith-*.whl)
echo "built ${wheel[0]} ($(du -h "${wheel[0]}" | cut -f1))"
scripts/try_wheel.sh "${wheel[0]}"
