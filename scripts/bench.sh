#!/usr/bin/env bash
# bench.sh BUILD_FOLDER [options of Google Benchmark]: runs all benchmarks on the first GPU. Without a GPU, each reports that
# and measures nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh

build=$1
shift
echo "== kernels and dispatch"
"$build/bench/tunesmith_bench" "$@"
echo
echo "== new processes"
"$build/bench/tunesmith_cold_start"
echo
echo "== shapes that change from call to call"
"$build/bench/tunesmith_changing_shapes"
echo
echo "== kernels for buckets of widths"
"$build/bench/tunesmith_specialize"
