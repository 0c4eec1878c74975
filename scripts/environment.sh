# shellcheck shell=bash
# Source this file: it sets TUNESMITH_CUDA to the NVRTC that scripts/setup.sh downloaded, unless the variable is set.
_tunesmith_nvrtc=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/.deps/python/nvidia/cu13/lib
if [[ -z ${TUNESMITH_CUDA:-} && -d $_tunesmith_nvrtc ]]; then
  export TUNESMITH_CUDA=$_tunesmith_nvrtc
fi
unset _tunesmith_nvrtc
