#!/usr/bin/env bash
# tidy.sh BUILD_FOLDER FOLDER: runs clang-tidy on the compilation units of a folder's sources in a configured build; fails on
# any finding. Skips a folder that was clean before unless a source of it, a header, a compile command or .clang-tidy has
# changed. Uses clang-tidy 23 (scripts/setup.sh)
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
folder=$2
stamp=$build/clang_tidy/$folder.clean
# The folder's unit, or its sources where they are compiled alone.
mapfile -t units < <(sed -n 's/^ *"file": "\(.*\)"$/\1/p' "$build/compile_commands.json" | sort -u |
  grep -E "/unity_${folder//\//_}_cxx\.cxx$|^$PWD/$folder/[^/]*\.cpp$" || true)
if ((${#units[@]} == 0)); then
  echo "tidy.sh: $build compiles no source of $folder" >&2
  exit 1
fi
state=$({
  echo "$version"
  cat .clang-tidy "$folder"/*.cpp "${units[@]}"
  grep -F -e "/unity_${folder//\//_}_" -e "/$folder/" "$build/compile_commands.json" || true
  find api bench cache core fleet jit templates tuner -name '*.h' -print0 | sort -z | xargs -0 cat
} | sha256sum)
if [[ -f $stamp && $(<"$stamp") == "$state" ]]; then
  echo "unchanged since the last run without findings"
  exit
fi

# stdout has the findings; stderr only counts warnings in system headers, so it is not shown. Deprecation warnings are off
# because clang 23 raises them within libstdc++ 12, and warnings of shadowed names, because a unit has several sources; g++
# reports both.
log=$(mktemp)
found=$(mktemp)
trap 'rm -f "$log" "$found"' EXIT
flags=(--quiet -p "$build" --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-deprecated-declarations
  --extra-arg=-Wno-shadow)
if ! "$clang_tidy" "${flags[@]}" "${units[@]}" >"$found" 2>"$log"; then
  if grep -qE '^/usr/.*/c\+\+/.*\[clang-diagnostic-error\]' "$found"; then
    echo "skipped: clang-tidy cannot parse the C++ library of $(g++ --version | head -n 1)"
    exit 77
  fi
  cat "$found" "$log"
  exit 1
fi
mkdir -p "$(dirname "$stamp")"
echo "$state" >"$stamp"
