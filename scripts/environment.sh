# shellcheck shell=bash
# To be sourced: lets programs find the NVRTC that scripts/setup.sh downloaded, unless TUNESMITH_CUDA says otherwise.
_tunesmith_nvrtc=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/.deps/python/nvidia/cu13/lib
if [[ -z ${TUNESMITH_CUDA:-} && -d $_tunesmith_nvrtc ]]; then
  export TUNESMITH_CUDA=$_tunesmith_nvrtc
fi
unset _tunesmith_nvrtc
