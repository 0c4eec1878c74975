#!/usr/bin/env bash
# pack_peers.sh [NAME]: packs the peers that a GPU machine without network lacks, FlashAttention-4, QuACK, Liger and the norms of
# FlashInfer, as NAME.00, NAME.01, ... (default build/peers.tar.xz) of at most 40 MiB, so that each fits a transfer of its own. On
# the other machine:
#
#   cat build/peers.tar.xz.* | tar -xJ -C build; source build/peers/environment.sh
#
# The wheels are listed in wheels.txt, for CPython 3.12 on x86-64; PyTorch and Triton must be there.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
archive=$(realpath --canonicalize-missing "${1:-$here/../../build/peers.tar.xz}")
part_mib=40

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
platforms=()
for version in _2_28 _2_27 _2_24 _2_17 2014 1; do platforms+=(--platform "manylinux${version}_x86_64"); done
python3 -m pip download --quiet --disable-pip-version-check --no-deps --pre --only-binary :all: --python-version 3.12 \
  --implementation cp "${platforms[@]}" --dest "$work/wheels" --requirement "$here/wheels.txt"

# Several wheels share folders, which pip's --target would replace.
mkdir "$work/peers"
for wheel in "$work"/wheels/*.whl; do python3 -m zipfile --extract "$wheel" "$work/peers"; done

# Of FlashInfer the norms, which need only the CUTLASS DSL: its packages import all kernels and what those need, 400 MB.
mv "$work/peers/flashinfer" "$work/flashinfer"
mkdir -p "$work/peers/flashinfer/cute_dsl"
cp -r "$work"/flashinfer/{norm,jit,trace} "$work"/flashinfer/{_build_meta,api_logging,artifacts,compilation_context}.py \
  "$work"/flashinfer/{fi_trace,utils,version}.py "$work/peers/flashinfer"
cp "$work"/flashinfer/cute_dsl/{availability,utils}.py "$work/peers/flashinfer/cute_dsl"
touch "$work"/peers/flashinfer/{,cute_dsl/}__init__.py
rm -rf "$work"/peers/{b12x,build_backend.py,build_utils.py}

find "$work/peers" -name '*.so*' -type f ! -path '*/stubs/*' -exec strip --strip-unneeded {} +
cat >"$work/peers/environment.sh" <<'EOF'
# Sourced: makes the peers importable. A .pth file of the wheels does this in a normal installation.
site=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PYTHONPATH=$site:$site/nvidia_cutlass_dsl/dsl_packages${PYTHONPATH:+:$PYTHONPATH}
EOF

mkdir -p "$(dirname "$archive")"
rm -f "$archive".[0-9]*
tar --create --file - --directory "$work" peers | xz --threads=1 --lzma2=preset=9,dict=256MiB |
  split --bytes="${part_mib}M" --numeric-suffixes - "$archive."
du --human-readable "$archive".[0-9]*
