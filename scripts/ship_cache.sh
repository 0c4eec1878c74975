#!/usr/bin/env bash
# ship_cache.sh [--fresh] [CACHE_FILE...]: merges cache files from a GPU machine into the shipped tuning results,
# cache/shipped/records.jsonl. With --fresh, drops the present results first. If two results have the same key, the newer one
# is kept. Drops results of other templates than those in this tree, so without a CACHE_FILE it only does that.
# Uses the newest build of the command line in build/, or the program in the variable TUNESMITH.
set -euo pipefail
max_bytes=$((2 << 20)) # every clone and every installation contains the file
fail() {
  echo "ship_cache.sh: $*" >&2
  exit 1
}

fresh=
files=()
for argument in "$@"; do
  case $argument in
    --fresh) fresh=yes ;;
    -*) fail "unknown flag $argument; usage: ship_cache.sh [--fresh] [CACHE_FILE...]" ;;
    *) files+=("$(realpath -e "$argument")") ;;
  esac
done
cd "$(dirname "${BASH_SOURCE[0]}")/.."
records=$PWD/cache/shipped/records.jsonl
program=${TUNESMITH:-$(find build -path '*/api/cli/tunesmith' -type f -printf '%T@ %p\n' 2>/dev/null | sort -rn | head -n 1 | cut -d' ' -f2-)}
[[ -x $program ]] || fail "the command line is not built; expected build/release/api/cli/tunesmith (make build), or TUNESMITH=PROGRAM"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Use the templates of this tree, because the build may be older; ignore the shell's other settings.
unset TUNESMITH_MODE TUNESMITH_LOG TUNESMITH_DUMP_DIR
export TUNESMITH_TEMPLATES=$PWD/templates TUNESMITH_SYSTEM_CACHE='' TUNESMITH_CACHE=$scratch/merged.db
[[ $fresh || ! -s $records ]] || "$program" cache import "$records"
for file in "${files[@]}"; do "$program" cache import "$file"; done
"$program" cache export --records "$scratch/records.jsonl"

count=$(wc -l <"$scratch/records.jsonl")
bytes=$(stat -c %s "$scratch/records.jsonl")
((bytes <= max_bytes)) || fail "$count records are $bytes bytes; allowed: at most $max_bytes"
[[ ${#files[@]} -eq 0 || $count -gt 0 ]] || fail "no record belongs to the templates in this tree; $records is unchanged"
mv "$scratch/records.jsonl" "$records"
chmod 644 "$records"
echo "$records: $count records, $bytes of at most $max_bytes bytes; the next build converts it to shipped.db"
