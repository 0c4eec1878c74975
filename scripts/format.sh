#!/usr/bin/env bash
# format.sh [--check]: formats all C++ and device sources. With --check, changes nothing and fails if a file is not formatted.
# Requires clang-format 14 (in Debian 12 and Ubuntu 24.04), because other versions format differently. Without it, --check
# exits with 77, which CTest reports as skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

find_clang_format() {
  local tool
  for tool in clang-format-14 clang-format; do
    if [[ $("$tool" --version 2>/dev/null) == *"version 14."* ]]; then
      echo "$tool"
      return
    fi
  done
  return 1
}

check=
[[ ${1:-} == --check ]] && check=yes
if ! clang_format=$(find_clang_format); then
  if [[ $check ]]; then
    echo "skipped: no clang-format 14 on this machine"
    exit 77
  fi
  echo "format.sh: no clang-format 14 on this machine; make setup installs it" >&2
  exit 1
fi

mapfile -d '' files < <(find api bench cache core fleet jit templates tests tuner -type f \
  \( -name '*.cpp' -o -name '*.h' -o -name '*.cuh' -o -name '*.cu' \) -not -path '*/golden/*' -print0 | sort -z)
((${#files[@]} > 0)) || { echo "format.sh: found no sources" >&2; exit 1; }

if [[ $check ]]; then
  # Limit the number of errors to keep the log readable.
  if ! "$clang_format" --dry-run --Werror --ferror-limit=3 "${files[@]}"; then
    echo "format.sh: not formatted; run make format" >&2
    exit 1
  fi
  echo "${#files[@]} files are formatted"
else
  "$clang_format" -i "${files[@]}"
fi
