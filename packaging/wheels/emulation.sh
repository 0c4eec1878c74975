# shellcheck shell=bash disable=SC2154
# emulation.sh, for portable_wheel.sh: the Python and the programs of another architecture, under qemu's user-mode emulation.
# Both come from Debian 13, whose Python is new enough for abi3 wheels and whose qemu needs no libraries; nothing is installed.
# Expects `folder`, `arch`, `environment`, `say` and `fetch`.

emulated=$folder/$arch/emulated # Debian's C library and Python
emulated_python=3.13

# Fetches qemu and Python, and writes the commands `emulate PROGRAM ARGUMENTS` and `python ARGUMENTS` next to `emulated`.
prepare_emulation() {
  local at=$folder/$arch source=$folder/$arch/debian13.list
  if [[ ! -e $emulated/complete ]]; then
    say "fetching qemu and Python for $arch"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main" >"$source"
    fetch "$at/qemu" "$(dpkg --print-architecture)" "$source" qemu-user
    local python=python$emulated_python
    rm -rf "$emulated"
    fetch "$emulated" "$(debian_name "$arch")" "$source" libc6 libgcc-s1 libstdc++6 zlib1g libexpat1 libffi8 libbz2-1.0 liblzma5 \
      "lib$python-minimal" "lib$python-stdlib" "$python-minimal" "lib$python-dev"
    ln -sf usr/lib "$emulated/lib"
    ln -sf usr/lib64 "$emulated/lib64"
    ln -s "../$arch-linux-gnu" "$emulated/usr/include/$python/$arch-linux-gnu"
    touch "$emulated/complete"
  fi
  # CMake runs the interpreter with the emulator, and without it.
  cat >"$at/emulate" <<SCRIPT
#!/bin/sh
case \$1 in "$at/python") exec "\$@" ;; esac
exec "$at/qemu/usr/bin/qemu-$arch" -L "$emulated" "\$@"
SCRIPT
  cat >"$at/python" <<SCRIPT
#!/bin/sh
PYTHONPATH=\${PYTHONPATH:-$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')}
export PYTHONPATH PYTHONDONTWRITEBYTECODE=1
exec "$at/emulate" "$emulated/usr/bin/python$emulated_python" "\$@"
SCRIPT
  # The compiler of the host executor: not emulated.
  mkdir -p "$at/compiler"
  cat >"$at/compiler/c++" <<SCRIPT
#!/bin/sh
exec "$TUNESMITH_ZIG" c++ -target $arch-linux-gnu -fno-sanitize=all "\$@"
SCRIPT
  chmod +x "$at"/{emulate,python,compiler/c++}
}

# Uses a wheel as try_wheel.sh does: a softmax on the CPU, checked against float64, and the command line.
try_emulated() {
  local at=$folder/$arch tried=$folder/$arch/tried file found platform
  local platforms=()
  for platform in manylinux_2_28 manylinux_2_27 manylinux_2_17 manylinux2014; do platforms+=(--platform "${platform}_$arch"); done
  rm -rf "$tried"
  "$environment/bin/pip" install --quiet --disable-pip-version-check --target "$tried" --only-binary :all: "${platforms[@]}" \
    --implementation cp --python-version "$emulated_python" "$1" numpy
  for file in "$tried/tunesmith/"{_core.abi3.so,bin/tunesmith}; do
    found=$(LC_ALL=C readelf --file-header "$file" | sed -n 's/^ *Machine: *//p')
    [[ ${found,,} == *"${arch/_/-}"* ]] || fail "$file is for '$found'"
  done
  [[ -s $tried/tunesmith/_core.pyi ]] || fail "the wheel has no stub"
  # Not in the checkout, whose files must not be found.
  (
    cd "$at" || exit
    unset TUNESMITH_SYSTEM_CACHE
    export TUNESMITH_CACHE=
    PATH=$at/compiler:$PATH PYTHONPATH=$tried "$at/python" "$OLDPWD/api/python/tests/fresh_environment.py"
    tunesmith() { "$at/emulate" "$tried/tunesmith/bin/tunesmith" "$@"; }
    tunesmith --version
    tunesmith source softmax --rows 4096 --cols 32000 --dtype bf16 --arch sm_90a >softmax.cu
    grep -q __global__ softmax.cu || fail "the source of a kernel lacks the kernel"
    PATH=$at/compiler:$PATH tunesmith run softmax --rows 4 --cols 100 --device host --mode off
    tunesmith doctor >doctor.txt
    grep -q "$tried/.*/shipped.db" doctor.txt || { cat doctor.txt; fail "the wheel's records are not found"; }
  )
  say "the wheel works on $arch, emulated"
}
