#!/usr/bin/env bash
# Tests scripts/test_summary.awk: what it counts, the reasons of skipped tests, and the output of those that failed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
file=$(mktemp)
trap 'rm -f "$file"' EXIT

expect() {  # expect STATUS TEXT: the summary of $file
  local status=0 text
  text=$(awk -f "$root/scripts/test_summary.awk" "$file") || status=$?
  if [[ $status != "$1" || $text != "$2" ]]; then
    printf 'test_summary_test.sh: exit code %s and\n%s\nbut expected %s and\n%s\n' "$status" "$text" "$1" "$2" >&2
    exit 1
  fi
}

testcase() {  # testcase NAME STATUS [LINE...]
  printf '\t<testcase name="%s" classname="%s" time="0.1" status="%s">\n' "$1" "$1" "$2"
  [[ $2 == notrun ]] && echo '		<skipped message="SKIP_RETURN_CODE=77"/>'
  printf '\t\t<properties/>\n\t\t<system-out>'
  (($# > 2)) && printf '%s\n' "${@:3}"
  printf '</system-out>\n\t</testcase>\n'
}

{
  testcase good run 'fine'
  testcase other notrun 'x.sh: skipped: no GPU'
} >"$file"
expect 0 'skipped: other: no GPU
1 passed, 0 failed, 1 skipped'

{
  testcase good run 'fine'
  testcase 'bad/&lt;1&gt;' fail $(seq 50) 'a &lt; b &amp;&amp; c'
  testcase late notrun 'Running main()' '[  FAILED  ] late' 'x: skipped: too late'
} >"$file"
expect 1 "the end of the output of bad/<1>:
$(seq --format='  %g' 12 50)
  a < b && c
the end of the output of late:
  Running main()
  [  FAILED  ] late
  x: skipped: too late
FAILED: bad/<1>
FAILED: late
1 passed, 2 failed, 0 skipped"

echo '<testsuite/>' >"$file"
expect 1 '0 passed, 0 failed, 0 skipped'
echo "test_summary_test.sh: ok"
