#!/usr/bin/env bash
# sanitized_problems_test.sh TUNESMITH: renders the kernel of every problem that scripts/sanitize.sh runs.
set -euo pipefail
tunesmith=$1
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
count=0
while read -r problem; do
  [[ -n $problem && $problem != '#'* ]] || continue
  count=$((count + 1))
  # shellcheck disable=SC2086  # the problem is several words
  "$tunesmith" source ${problem#memcheck: } --kernel --arch sm_90a --cache "$cache/cache.db" >/dev/null
done <"$(dirname "${BASH_SOURCE[0]}")/../sanitized_problems.txt"
((count > 40))
