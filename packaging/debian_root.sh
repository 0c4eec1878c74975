# shellcheck shell=bash
# debian_root.sh: unpacks Debian packages of any architecture in a folder, without installing them. scripts/portable_wheel.sh and
# scripts/release.sh build against them.

# Prints Debian's name of an architecture.
debian_name() { [[ $1 == x86_64 ]] && echo amd64 || echo arm64; }

# fetch FOLDER ARCHITECTURE SOURCES PACKAGE...: unpacks Debian packages in a folder, with apt's state in another one next to it.
# SOURCES: a list of sources, or nothing for the system's. A package may be 'PACKAGE>PATTERN': its dependency of this name.
fetch() {
  local to=$1 architecture=$2 sources=$3 at=$1.apt package names=()
  shift 3
  rm -rf "$at"
  mkdir -p "$at"/{packages,state/partial,cache/archives/partial} "$to"
  local apt=(-qq -o "Dir::State::lists=$at/state" -o "Dir::Cache=$at/cache" -o Dir::State::status=/dev/null
    -o APT::Sandbox::User= -o Debug::NoLocking=1 -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture")
  [[ -z $sources ]] || apt+=(-o "Dir::Etc::sourcelist=$sources" -o Dir::Etc::sourceparts=/dev/null)
  apt-get "${apt[@]}" update
  for package in "$@"; do
    if [[ $package == *'>'* ]]; then
      package=$(apt-cache "${apt[@]}" depends "${package%%>*}" | sed -n 's/^ *Depends: *//p' | grep -m 1 -E "${package#*>}")
    fi
    names+=("$package")
  done
  (cd "$at/packages" && apt-get "${apt[@]}" download "${names[@]}")
  for package in "$at"/packages/*.deb; do dpkg --extract "$package" "$to"; done
  rm -rf "$at"
}
