#!/usr/bin/env bash
# ship_cache.sh [--fresh] [CACHE_FILE...]: makes cache/shipped/records.jsonl, the tuning results that ship, of what it holds
# already (not with --fresh) and of cache files that were filled on a GPU machine; of two results for one key the newer one
# counts. Results of other templates than those in this tree are left out, so without a CACHE_FILE it only drops those.
# Uses the newest build of the command line under build/, or the program that TUNESMITH names.
set -euo pipefail
max_bytes=$((2 << 20)) # every clone and every installation carries it
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
[[ -x $program ]] || fail "no command line was built; expected build/release/api/cli/tunesmith (make build), or TUNESMITH=PROGRAM"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# The templates of this tree, not those of a build that may be older; nothing else from the shell.
unset TUNESMITH_MODE TUNESMITH_LOG TUNESMITH_DUMP_DIR
export TUNESMITH_TEMPLATES=$PWD/templates TUNESMITH_SYSTEM_CACHE='' TUNESMITH_CACHE=$scratch/merged.db
[[ $fresh || ! -s $records ]] || "$program" cache import "$records"
for file in "${files[@]}"; do "$program" cache import "$file"; done
"$program" cache export --records "$scratch/records.jsonl"

count=$(wc -l <"$scratch/records.jsonl")
bytes=$(stat -c %s "$scratch/records.jsonl")
((bytes <= max_bytes)) || fail "$count records are $bytes bytes; at most $max_bytes ship: leave some out"
[[ ${#files[@]} -eq 0 || $count -gt 0 ]] || fail "none of the records is of the templates in this tree; $records is as it was"
mv "$scratch/records.jsonl" "$records"
chmod 644 "$records"
echo "$records: $count records, $bytes of at most $max_bytes bytes; build again to make shipped.db of it"
