#!/usr/bin/env bash
# What scripts/gpu_tests.sh counts: programs that pass, skip, fail, crash or are absent.
set -euo pipefail
script=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/scripts/gpu_tests.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

program() { # program NAME, its body on stdin
  mkdir -p "$folder/tests"
  { echo '#!/usr/bin/env bash' && cat; } >"$folder/tests/$1_gpu_test"
  chmod +x "$folder/tests/$1_gpu_test"
}
# check STATUS LAST_LINE [TEXT...]: what the script ends with, and what it prints
check() {
  local status=0 output
  output=$("$script" "$folder" 2>&1) || status=$?
  [[ $status -eq $1 ]] || { echo "ended with $status instead of $1: $output"; exit 1; }
  [[ $(tail -n 1 <<<"$output") == "$2" ]] || { echo "expected '$2' at the end of: $output"; exit 1; }
  for text in "${@:3}"; do
    grep -qF "$text" <<<"$output" || { echo "expected '$text' in: $output"; exit 1; }
  done
}

check 1 "gpu_tests.sh: no $folder/tests/*_gpu_test; scripts/pack.sh builds and collects them"

program skipping <<'E2'
printf '%s\n' '[ RUN      ] Gpu.Needed' 'file.cpp:1: Skipped' 'no GPU here' '[  SKIPPED ] Gpu.Needed (0 ms)' \
  '[  SKIPPED ] 1 test, listed below:' '[  SKIPPED ] Gpu.Needed'
E2
export GPU_TESTS_SHARDS=1
check 1 "0 passed, 0 failed, 1 skipped" "skipped: Gpu.Needed: no GPU here"

echo abc1234 >"$folder/commit"
check 1 "0 passed, 0 failed, 1 skipped" "$folder was built at abc1234"

program passing <<'E2'
printf '%s\n' '[ RUN      ] A.One' '[       OK ] A.One (3 ms)' '[ RUN      ] A.Two' '[       OK ] A.Two (4 ms)' "options $*"
E2
check 0 "2 passed, 0 failed, 1 skipped"

program failing <<'E2'
printf '%s\n' '[ RUN      ] B.One' 'file.cpp:7: Failure' '[  FAILED  ] B.One (3 ms)' '[  FAILED  ] 1 test, listed below:' \
  '[  FAILED  ] B.One'
exit 1
E2
check 1 "2 passed, 1 failed, 1 skipped" "FAILED: B.One" "file.cpp:7: Failure"

program crashing <<'E2'
printf '%s\n' '[ RUN      ] C.One' '[       OK ] C.One (1 ms)' '[ RUN      ] C.Two'
exit 134
E2
check 1 "3 passed, 2 failed, 1 skipped" "FAILED: crashing_gpu_test, in C.Two: it ended with status 134"

rm "$folder"/tests/{failing,crashing}_gpu_test
# Alone: after the others, and not in shards.
program passing <<'E2'
sleep 0.3
printf '%s\n' '[ RUN      ] A.One' '[       OK ] A.One (3 ms)' '[ RUN      ] A.Two' '[       OK ] A.Two (4 ms)'
touch "$0.ended"
E2
program low_memory <<'E2'
printf '%s\n' '[ RUN      ] E.One'
[[ ${TUNESMITH_FULL_MEMORY:-} == 1 && $GTEST_TOTAL_SHARDS == 1 && -e ${0/low_memory/passing}.ended ]] || exit 1
printf '%s\n' '[       OK ] E.One (1 ms)'
E2
program cli <<'E2'
printf '%s\n' '[ RUN      ] F.One'
[[ $GTEST_TOTAL_SHARDS == 1 && -e ${0/cli/passing}.ended ]] || exit 1
printf '%s\n' '[       OK ] F.One (1 ms)'
E2
GPU_TESTS_SHARDS=2 check 0 "6 passed, 0 failed, 2 skipped"
rm "$folder"/tests/{cli,low_memory}_gpu_test

# Processes take the GPUs in turn.
program spread <<'E2'
printf '%s\n' "[ RUN      ] A.On$CUDA_VISIBLE_DEVICES" "[       OK ] A.On$CUDA_VISIBLE_DEVICES (3 ms)"
echo "$CUDA_VISIBLE_DEVICES" >>"$0.gpus"
E2
CUDA_VISIBLE_DEVICES=5,7 GPU_TESTS_SHARDS=3 check 0 "9 passed, 0 failed, 3 skipped"
[[ $(sort "$folder"/tests/spread_gpu_test.gpus | tr '\n' ' ') == "5 5 7 " ]] || {
  echo "expected two processes on GPU 5 and one on GPU 7"; exit 1; }
rm "$folder"/tests/spread_gpu_test*

program slow <<'E2'
printf '%s\n' "[ RUN      ] D.Shard$GTEST_SHARD_INDEX"
[[ $GTEST_SHARD_INDEX -eq 0 ]] || sleep 60
printf '%s\n' "[       OK ] D.Shard$GTEST_SHARD_INDEX (2 ms)"
E2
export GPU_TESTS_SHARDS=2 GPU_TESTS_TIMEOUT=2
check 1 "5 passed, 1 failed, 2 skipped" "FAILED: slow_gpu_test, in D.Shard1: it ended with status 124"
