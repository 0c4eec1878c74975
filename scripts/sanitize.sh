#!/usr/bin/env bash
# sanitize.sh BUILD_FOLDER [memcheck|racecheck|initcheck|synccheck]...: runs the problems of tests/sanitized_problems.txt
# under compute-sanitizer, without tuning (default: memcheck and racecheck). Needs a GPU. Prints one line for each run, and
# the report of each that found something; the last line counts them. Fails if a run found something, did not end in
# SANITIZE_TIMEOUT seconds (default 120), or computed a wrong result. SANITIZE_JOBS runs at a time (default 8).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh

build=${1:?"usage: sanitize.sh BUILD_FOLDER [memcheck|racecheck|initcheck|synccheck]..."}
shift
tools=("$@")
((${#tools[@]})) || tools=(memcheck racecheck)
tunesmith=$build/api/cli/tunesmith
[[ -x $tunesmith ]] || {
  echo "sanitize.sh: no $tunesmith; scripts/pack.sh builds it" >&2
  exit 1
}
export tunesmith TUNESMITH_SYSTEM_CACHE=
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

run() {
  local logs=$1 number=$2 tool=$3 problem=$4 status=0 found
  local log=$logs/$number.$tool
  # shellcheck disable=SC2086  # the problem is several words
  timeout --kill-after=10 "${SANITIZE_TIMEOUT:-120}" compute-sanitizer --tool "$tool" --error-exitcode 3 --print-limit 4 \
    "$tunesmith" run $problem --mode off --check-only --cache "$logs/$number.$tool.db" >"$log" 2>&1 || status=$?
  found=$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY|^tunesmith: error' "$log" | tail -n 1 | sed 's/^=* *//') || true
  echo "$tool, status $status, ${found:-no summary}: $problem"
  ((status == 0)) || touch "$log.failed"
}
export -f run
number=0
while read -r problem; do
  [[ -n $problem && $problem != '#'* ]] || continue
  for tool in "${tools[@]}"; do
    [[ $problem == memcheck:* && $tool == racecheck ]] || printf '%s\0' "$logs" "$number" "$tool" "${problem#memcheck: }"
  done
  number=$((number + 1))
done <tests/sanitized_problems.txt | xargs -0 -n 4 -P "${SANITIZE_JOBS:-8}" bash -c 'run "$@"' run

failed=0
for mark in "$logs"/*.failed; do
  [[ -e $mark ]] || continue
  failed=$((failed + 1))
  echo "==== ${mark##*/}"
  head -n "${SANITIZE_LINES:-40}" "${mark%.failed}"
done
runs=$(find "$logs" -name '*.*check' | wc -l)
echo "sanitize.sh: $runs runs, $failed failed"
((failed == 0 && runs > 0))
