#!/usr/bin/env bash
# demo.sh BUILD_FOLDER: runs the main features, on the GPU if there is one and otherwise on the CPU. All files, including the
# cache, are in BUILD_FOLDER/demo, which is emptied first. Checks every claim of a heading; the last line is "demo: ok ...",
# or the script fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh

tunesmith=$1/api/cli/tunesmith
work=$1/demo
[[ -x $tunesmith ]] || { echo "demo: $tunesmith is missing; run make build" >&2; exit 1; }
rm -rf "$work"
mkdir -p "$work"
# Use the defaults and ignore the shell's settings.
unset TUNESMITH_MODE TUNESMITH_LOG TUNESMITH_TEMPLATES TUNESMITH_DUMP_DIR
export TUNESMITH_CACHE=$work/cache.db
# Ignore the shipped results, so that the demo tunes on every GPU.
export TUNESMITH_SYSTEM_CACHE=

step=0
title() { printf '\n== %d. %s\n' "$((++step))" "$*"; }
fail() {
  echo "demo: FAILED: $*" >&2
  exit 1
}
# Prints a command and runs it; writes its output to $work/output as well.
show() {
  echo "\$ ${*/#"$tunesmith"/tunesmith}"
  "$@" | tee "$work/output"
}
expect() { grep -Eq "$1" "$work/output" || fail "$2"; }
expect_not() { if grep -Eq "$1" "$work/output"; then fail "$2"; fi; }

# Writes a .npy file (version 1.0, float32, 3 rows of 4) without Python: a header padded to 128 bytes, then the numbers.
write_npy() {
  local header="{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"
  printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$header"
  printf '\x00\x00\x00\x00\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40' #    0    1    2    3
  printf '\x00\x00\x80\x3f\x00\x00\x80\x3f\x00\x00\x80\x3f\x00\x00\x80\x3f' #    1    1    1    1
  printf '\x00\x00\x7a\x44\x00\x40\x7a\x44\x00\x00\x80\xff\x00\x00\x7a\x44' # 1000 1001 -inf 1000
}
print_npy() { od --address-radix=n --format=f4 --width=16 --skip-bytes=128 "$1"; }

title "The machine"
show "$tunesmith" doctor

title "Softmax of a .npy array"
write_npy >"$work/x.npy"
echo "x.npy:"
print_npy "$work/x.npy"
show "$tunesmith" run softmax --input x="$work/x.npy" --output y="$work/y.npy"
expect 'check +passed' "the result was not verified"
# The output says whether there is a GPU.
gpu=yes
rows=4096
device=auto
if grep -Eq '^device +host executor' "$work/output"; then
  gpu=
  rows=256
  device=host
fi
echo "y.npy:"
print_npy "$work/y.npy" | tee "$work/output"
expect '^ *0?\.0320[56]' "y.npy does not hold the softmax of x.npy"

if [[ $gpu ]]; then
  title "Softmax of a seeded $rows x 32000 problem: render, compile, tune, run, verify"
else
  title "Softmax of a seeded $rows x 32000 problem: render, compile, run, verify (no GPU: the same source on the CPU)"
fi
problem=(softmax --rows "$rows" --cols 32000 --dtype bf16 --device "$device")
show "$tunesmith" run "${problem[@]}"
expect '^check +passed' "the result was not verified"
expect '^binary +compiled' "the first process did not compile"
[[ -z $gpu ]] || expect '^tuning ' "the first process did not tune"

title "The same again: a second process neither compiles nor tunes"
show "$tunesmith" run "${problem[@]}"
expect '^check +passed' "the result was not verified"
expect '^binary +loaded from the cache' "the second process compiled"
expect_not '^tuning ' "the second process tuned"
[[ -z $gpu ]] || expect '^origin +exact' "the second process did not find the tuned record"

title "Loss and gradient of a language model's last layer, in one pass over the logits"
show "$tunesmith" run cross_entropy --rows "$rows" --cols 32000 --dtype bf16 --gradient in_place --device "$device"
expect '^check +passed' "the loss or its gradient was not verified"

title "Attention of $rows positions, grouped heads, causal"
show "$tunesmith" run attention --heads 8 --kv-heads 2 --seq-q "$rows" --head-dim 64 --causal bottom-right --device "$device"
expect '^check +passed' "the attention was not verified"

title "The source for sm_90a and the resources that NVRTC reports; this needs no GPU"
target=(softmax --rows 4096 --cols 32000 --dtype bf16 --arch sm_90a)
source_file=$work/softmax_bf16_4096x32000_sm_90a.cu
echo "\$ tunesmith source ${target[*]} > $source_file"
"$tunesmith" source "${target[@]}" >"$source_file"
head -n 12 "$source_file"
echo "... ($(wc -l <"$source_file") lines)"
show "$tunesmith" source "${target[@]}" --resources
expect 'sm_90a|H[12]00|compiled in' "NVRTC did not compile for sm_90a"

title "Prewarming a cache for GPU machines on any machine"
cat >"$work/problems.json" <<'JSON'
{"problems": [{"op": "softmax", "rows": 4096, "cols": [1024, 32000], "dtype": ["bf16", "f32"]}]}
JSON
show "$tunesmith" prewarm --spec "$work/problems.json" --compile-only --arch sm_90a --cache "$work/shipped.db"

title "The contents of this demo's cache file"
show "$tunesmith" cache info
[[ -z $gpu ]] || show "$tunesmith" cache list

if [[ $gpu ]]; then where="the GPU"; else where="the CPU (no GPU here)"; fi
echo
echo "demo: ok on $where in $SECONDS s; the source for sm_90a is $source_file"
