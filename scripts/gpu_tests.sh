#!/usr/bin/env bash
# gpu_tests.sh BUILD_FOLDER [options of GoogleTest]: runs every test program with the label gpu, also where CTest cannot: on
# a machine that the build was carried to (scripts/pack.sh). Lists skipped and failed tests. The last line is "N passed, N
# failed, N skipped"; fails if a test failed or none ran. Each program runs as GPU_TESTS_SHARDS processes that share its
# tests (default 6), GPU_TESTS_JOBS processes at a time (default: one for each processor). The processes take the GPUs of the
# machine, or those in CUDA_VISIBLE_DEVICES, in turn, so that each sees one. Programs of `alone` run after all others: other
# processes on the GPU would take the time in which cli_gpu_test tunes, and low_memory_gpu_test fills the GPU's memory. What
# is unfinished after GPU_TESTS_TIMEOUT seconds (default 1800) is ended and has failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh

build=${1:?"usage: gpu_tests.sh BUILD_FOLDER [options of GoogleTest]"}
shift
programs=("$build"/tests/*_gpu_test)
[[ -x ${programs[0]} ]] || {
  echo "gpu_tests.sh: no $build/tests/*_gpu_test; scripts/pack.sh builds and collects them" >&2
  exit 1
}
[[ ! -e $build/commit ]] || echo "gpu_tests.sh: $build was built at $(cat "$build/commit")"
# As under CTest: tests that tune must not find their problems tuned.
export TUNESMITH_SYSTEM_CACHE=
end=$((EPOCHSECONDS + ${GPU_TESTS_TIMEOUT:-1800}))
export GTEST_TOTAL_SHARDS=${GPU_TESTS_SHARDS:-6}
gpus=${CUDA_VISIBLE_DEVICES:-$(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null | paste -sd, || true)}
IFS=, read -ra gpus <<<"${gpus:-0}"
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# A few processes at a time: most of their time goes to compiling kernels.
run() {
  local logs=$1 shard=$2 gpu=$3 program=$4 name log status=0 left=$((end - EPOCHSECONDS)) start=$SECONDS
  shift 4
  name=$(basename "$program")
  ((GTEST_TOTAL_SHARDS == 1)) || name+=" (shard $shard)"
  log=$logs/$name
  CUDA_VISIBLE_DEVICES=$gpu GTEST_SHARD_INDEX=$shard timeout --kill-after=10 $((left > 0 ? left : 1)) \
    "$program" --gtest_color=no "$@" >"$log" 2>&1 || status=$?
  echo "gpu_tests.sh: $name ended with status $status" >>"$log"
  echo "$name: $(grep -Ec '^\[       OK \] .* ms\)$' "$log") passed, $((SECONDS - start)) s"
}
export -f run
export end
alone=(cli_gpu_test low_memory_gpu_test)
processes=0
for program in "${programs[@]}"; do
  [[ " ${alone[*]} " != *" ${program##*/} "* ]] || continue
  for ((shard = 0; shard < GTEST_TOTAL_SHARDS; ++shard)); do
    printf '%s\0' "$logs" "$shard" "${gpus[processes++ % ${#gpus[@]}]}" "$program" "$@"
  done
done | xargs --no-run-if-empty -0 -n $((4 + $#)) -P "${GPU_TESTS_JOBS:-$(nproc)}" bash -c 'run "$@"' run
for program in "${alone[@]}"; do
  [[ ! -x $build/tests/$program ]] ||
    GTEST_TOTAL_SHARDS=1 TUNESMITH_FULL_MEMORY=1 run "$logs" 0 "${gpus[0]}" "$build/tests/$program" "$@"
done

awk '
  /^\[ RUN      \] / { running = $4; reason = "" }
  take_next { if (reason == "") reason = $0; take_next = 0 }
  /: Skipped$/ { take_next = 1 }
  /^\[       OK \] .* ms\)$/ { ++passed; running = "" }
  /^\[  SKIPPED \] .* ms\)$/ { ++skipped; running = ""; print "skipped: " $4 (reason == "" ? "" : ": " reason) }
  /^\[  FAILED  \] .* ms\)$/ { ++failed; running = ""; ++failures_of[FILENAME]; print "FAILED: " $4; files[FILENAME] = 1 }
  /^gpu_tests.sh: .* ended with status / {
    # Killed, or not started: no line above says so.
    if ($NF != 0 && !failures_of[FILENAME]) {
      ++failed; files[FILENAME] = 1
      print "FAILED: " $2 (running == "" ? "" : ", in " running) ": it ended with status " $NF
    }
    running = ""
  }
  END {
    for (file in files) {
      print "\n==== " file
      while ((getline line < file) > 0) if (line !~ /^\[ RUN|^\[       OK/) print line
    }
    printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
    exit failed > 0 || passed == 0
  }' "$logs"/*
