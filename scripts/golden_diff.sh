#!/usr/bin/env bash
# Shows how generated sources differ from another commit's: scripts/golden_diff.sh [COMMIT], by default the parent.
# Builds the commit's golden tests next to this checkout's build, saves its texts and runs the tests of this checkout.
set -euo pipefail
cd "$(dirname "$0")/.."
commit=${1:-HEAD^}
parent=build/golden_parent
tests=(templates_test row_program_op_test)

git worktree remove --force "$parent" 2>/dev/null || true
git worktree add --quiet --detach "$parent" "$commit"
trap 'git worktree remove --force "$parent"' EXIT
for checkout in "$parent" .; do
  [ -e "$checkout/.deps" ] || [ ! -e .deps ] || ln -s "$PWD/.deps" "$checkout/.deps"
  (cd "$checkout" && cmake --preset debug >/dev/null && cmake --build --preset debug --target "${tests[@]}" >/dev/null)
  failed=0
  for test in "${tests[@]}"; do
    (cd "$checkout" && "build/debug/tests/$test" --gtest_brief=1 --gtest_filter='*Golden*') || failed=1
  done
  [ "$checkout" = . ] || { mkdir -p build/golden && cp "$checkout"/build/golden/*.cu build/golden/; }
done
exit $failed
