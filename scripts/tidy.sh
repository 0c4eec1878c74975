#!/usr/bin/env bash
# tidy.sh BUILD_FOLDER SOURCE: clang-tidy by .clang-tidy over a source of a configured build; fails on any finding.
# A source that was clean is not looked at again until it, a header, its compile command or .clang-tidy changes.
# Exits 77, "skipped" to CTest, when there is no clang-tidy 14: other versions find other things.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for clang_tidy in clang-tidy-14 clang-tidy ''; do
  [[ $("$clang_tidy" --version 2>/dev/null) == *"version 14."* ]] && break
done
if [[ -z $clang_tidy ]]; then
  echo "skipped: no clang-tidy 14 on this machine"
  exit 77
fi

build=$1
source=$2
stamp=$build/clang_tidy/$source.clean
state=$({
  cat .clang-tidy "$source"
  grep -F "/$source" "$build/compile_commands.json" || true
  find api cache jit templates tuner -name '*.h' -print0 | sort -z | xargs -0 cat
} | sha256sum)
if [[ -f $stamp && $(<"$stamp") == "$state" ]]; then
  echo "unchanged since it was clean"
  exit
fi

# The count of warnings in other people's headers is noise; what clang-tidy found goes to stdout.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! "$clang_tidy" --quiet --extra-arg=-Wno-unknown-warning-option -p "$build" "$source" 2>"$log"; then
  cat "$log" >&2
  exit 1
fi
mkdir -p "$(dirname "$stamp")"
echo "$state" >"$stamp"
