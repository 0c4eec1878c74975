#!/usr/bin/env bash
# release_script_test.sh: scripts/release.sh --check in a clone of this checkout, with its uncommitted changes committed there: it
# accepts the present version, and says what is wrong with each tree that must not be released.
set -euo pipefail
source_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
git -C "$source_folder" rev-parse --git-dir >/dev/null 2>&1 || { echo "not a checkout"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export GIT_CONFIG_GLOBAL=$scratch/gitconfig GIT_CONFIG_SYSTEM=/dev/null
git config --global user.name test && git config --global user.email test@localhost
git config --global --add safe.directory '*'

fail() {
  echo "release_script_test.sh: $*" >&2
  exit 1
}

# What release.sh reads, and nothing else.
clone=$scratch/clone
mkdir "$clone"
files=(.gitignore CHANGELOG.md CITATION.cff core/include/tunesmith/version.h packaging/debian_root.sh
  packaging/vcpkg/ports/tunesmith/vcpkg.json scripts/release.sh)
(cd "$source_folder" && cp --parents "${files[@]}" "$clone")
cd "$clone"
git init --quiet
commit() { git add --all && git commit --quiet --allow-empty -m test; }
commit
start=$(git rev-parse HEAD)
version=$(sed -n 's/^#define TUNESMITH_VERSION "\(.*\)"/\1/p' core/include/tunesmith/version.h)

scripts/release.sh --check "$version" || fail "the present version is rejected"
git check-ignore --quiet "build/release-$version" || fail "the release's folder would make the tree dirty"

# expect MESSAGE [VERSION]: the tree is rejected with this message; then it is as at the start.
expect() {
  if scripts/release.sh --check "${2:-$version}" 2>"$scratch/error.log"; then fail "not rejected: $1"; fi
  grep -qF -- "$1" "$scratch/error.log" || fail "the message lacks '$1': $(cat "$scratch/error.log")"
  git reset --quiet --hard "$start"
  git clean --quiet --force -d
}
change() { # FILE SED: a committed change
  sed -i "$2" "$1"
  git diff --quiet && fail "$2 changes nothing in $1"
  commit
}
expect "expected MAJOR.MINOR.PATCH" "v$version"
expect "core/include/tunesmith/version.h has version '$version', not '99.0.0'" 99.0.0
echo "x" >>CHANGELOG.md
expect "the tree has changes"
echo "x" >new_file
expect "the tree has changes"
change packaging/vcpkg/ports/tunesmith/vcpkg.json 's/"version": .*/"version": "0.0.1",/'
expect "vcpkg.json has version '0.0.1'"
change CITATION.cff 's/^version: .*/version: 0.0.1/'
expect "CITATION.cff has version '0.0.1'"
change CITATION.cff 's/^date-released: .*/date-released: 1999-12-31/'
expect "CITATION.cff has another date"
change core/include/tunesmith/version.h 's/VERSION_MINOR .*/VERSION_MINOR 99/'
expect "TUNESMITH_VERSION_MINOR"
change CHANGELOG.md "s/^## \[$version\] - .*/## [$version] - unreleased/"
expect "CHANGELOG.md has no section '## [$version] - YYYY-MM-DD'"
change CHANGELOG.md "/^## \[$version\]/q"
expect "the section of $version in CHANGELOG.md is empty"
echo "release.sh rejects what must not be released"
