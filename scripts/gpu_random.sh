#!/usr/bin/env bash
# gpu_random.sh BUILD_FOLDER MINUTES [options of random_problems]: random problems of every operation on a GPU, compared with
# float64, in GPU_RANDOM_JOBS processes (default: one for each core): small and large ones, repeated launches and graphs, every
# candidate of some problems, and some under compute-sanitizer's memcheck where that is installed. Prints the seed of the run,
# the line that reproduces each failure, and the shares of covered pairs. The last line counts failures; fails if there were
# any. Needs a build of scripts/pack.sh, or a build folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh

build=${1:?"usage: gpu_random.sh BUILD_FOLDER MINUTES [options of random_problems]"}
minutes=${2:?"usage: gpu_random.sh BUILD_FOLDER MINUTES [options of random_problems]"}
shift 2
program=$build/tests/random_problems
[[ -x $program ]] || {
  echo "gpu_random.sh: no $program; scripts/pack.sh builds it" >&2
  exit 1
}
export TUNESMITH_SYSTEM_CACHE=
jobs=${GPU_RANDOM_JOBS:-$(nproc)}
run=${GPU_RANDOM_RUN:-0x$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')}
echo "gpu_random.sh: GPU_RANDOM_RUN=$run"
failed=0
# part NAME SHARE PREFIX... -- OPTIONS...: a share of the minutes.
part() {
  local name=$1 share=$2
  shift 2
  local time
  time=$(awk -v m="$minutes" -v s="$share" 'BEGIN { print m * s }')
  echo "==== $name, $time minutes"
  "$@" --minutes "$time" || failed=$((failed + 1))
}
random=("$program" --device cuda --run "$run")
part "problems that failed before" 0 "$program" --device cuda --jobs "$jobs" --cases tests/random/cases.txt
part "large problems" 0.45 "${random[@]}" --jobs "$jobs" --large "$@"
part "small problems" 0.3 "${random[@]}" --jobs "$jobs" "$@"
part "every candidate" 0.1 "${random[@]}" --jobs "$jobs" --candidates 2 --all-candidates --hang 600 "$@"
if command -v compute-sanitizer >/dev/null; then
  part "memcheck" 0.15 compute-sanitizer --tool memcheck --target-processes all --error-exitcode 3 --print-limit 4 \
    "${random[@]}" --jobs "$(((jobs + 1) / 2))" --no-shrink --hang 600 "$@"
else
  echo "gpu_random.sh: no compute-sanitizer; its part was left out"
fi
echo "gpu_random.sh: $failed parts failed"
((failed == 0))
