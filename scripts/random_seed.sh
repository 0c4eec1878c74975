# shellcheck shell=bash
# random_seed.sh: to be sourced in the repository's root. Sets the seed of random tests unless it is set: the same for the same
# sources, so that a failure elsewhere can be repeated, and another after each change of them.
if [[ -z ${TUNESMITH_RANDOM_SEED:-} ]]; then
  seed=$(find api core jit templates tests -type f -regex '.*\.\(cpp\|cuh\|h\|py\|row\)' -print0 | LC_ALL=C sort -z | xargs -0 cat | sha256sum)
  export TUNESMITH_RANDOM_SEED=$((16#${seed:0:12}))
fi
echo "TUNESMITH_RANDOM_SEED=$TUNESMITH_RANDOM_SEED"
