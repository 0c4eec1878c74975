#!/usr/bin/env bash
# tidy.sh BUILD_FOLDER SOURCE: clang-tidy by .clang-tidy over a source of a configured build; fails on any finding.
# A source that was clean is not looked at again until it, a header, its compile command or .clang-tidy changes.
# Exits 77, "skipped" to CTest, when there is no clang-tidy 14 (other versions find other things), or when it cannot parse
# the machine's C++ library, as it cannot parse <chrono> of g++ 13.
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
found=$(mktemp)
trap 'rm -f "$log" "$found"' EXIT
if ! "$clang_tidy" --quiet -p "$build" --extra-arg=-Wno-unknown-warning-option "$source" >"$found" 2>"$log"; then
  if grep -qE '^/usr/.*/c\+\+/.*\[clang-diagnostic-error\]' "$found"; then
    echo "skipped: clang-tidy 14 cannot parse the C++ library of $(g++ --version | head -n 1)"
    exit 77
  fi
  cat "$found" "$log"
  exit 1
fi
mkdir -p "$(dirname "$stamp")"
echo "$state" >"$stamp"
