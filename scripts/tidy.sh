#!/usr/bin/env bash
# tidy.sh BUILD_FOLDER SOURCE: runs clang-tidy on a source of a configured build; fails on any finding. Skips a source that
# was clean before unless it, a header, its compile command or .clang-tidy has changed. Uses clang-tidy 23 (scripts/setup.sh)
# or 14 (Debian), because other versions have other findings. Exits with 77, which CTest reports as skipped, if there is
# neither or if 14 cannot parse the machine's C++ library (such as <chrono> of g++ 13).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for clang_tidy in .deps/clang-tidy/clang_tidy/data/bin/clang-tidy clang-tidy-23 clang-tidy-14 clang-tidy ''; do
  version=$("$clang_tidy" --version 2>/dev/null || true)
  [[ $version =~ version\ (14|23)\. ]] && break
done
if [[ -z $clang_tidy ]]; then
  echo "skipped: no clang-tidy 23 or 14 on this machine"
  exit 77
fi

build=$1
source=$2
stamp=$build/clang_tidy/$source.clean
state=$({
  echo "$version"
  cat .clang-tidy "$source"
  grep -F "/$source" "$build/compile_commands.json" || true
  find api bench cache core fleet jit templates tuner -name '*.h' -print0 | sort -z | xargs -0 cat
} | sha256sum)
if [[ -f $stamp && $(<"$stamp") == "$state" ]]; then
  echo "unchanged since the last run without findings"
  exit
fi

# stdout has the findings; stderr only counts warnings in system headers, so it is not shown. Deprecation warnings are off
# because clang 23 raises them within libstdc++ 12; g++ reports those in our code.
log=$(mktemp)
found=$(mktemp)
trap 'rm -f "$log" "$found"' EXIT
flags=(--quiet -p "$build" --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-deprecated-declarations)
if ! "$clang_tidy" "${flags[@]}" "$source" >"$found" 2>"$log"; then
  if grep -qE '^/usr/.*/c\+\+/.*\[clang-diagnostic-error\]' "$found"; then
    echo "skipped: clang-tidy cannot parse the C++ library of $(g++ --version | head -n 1)"
    exit 77
  fi
  cat "$found" "$log"
  exit 1
fi
mkdir -p "$(dirname "$stamp")"
echo "$state" >"$stamp"
