#!/usr/bin/env bash
# docs.sh: builds the documentation's site in build/docs/site: all pages with search, the reference of the C++ and C headers
# (Doxygen) and of the Python package (mkdocstrings). Works without a server: open index.html in a browser. A broken link, a
# page that is missing from the navigation and a malformed comment are errors. The first run installs MkDocs from PyPI into
# build/docs/environment. The Python package's compiled part is documented by its stub, which the preset debug builds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=build/docs
requirements=docs/site/requirements.txt
if ! cmp -s "$requirements" "$work/environment/requirements.txt"; then
  echo "docs.sh: installing MkDocs into $work/environment"
  rm -rf "$work/environment"
  python3 -m venv "$work/environment"
  "$work/environment/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: -r "$requirements"
  cp "$requirements" "$work/environment/"
fi

# The pages, and what they link to, in the layout of the repository: committed files and new ones.
rm -rf "$work/source" "$work/site" "$work/python"
mkdir -p "$work/source" "$work/python"
git ls-files --cached --others --exclude-standard -- '*.md' '*.row' 'docs/course' 'api/examples' 'api/python/examples' \
  'bench/plots' '*/include/tunesmith/*.h' | sort -u | while read -r file; do
  [[ ! -f $file ]] || install -D -m 644 "$file" "$work/source/$file"
done

{
  cat docs/site/Doxyfile
  echo "OUTPUT_DIRECTORY = $work/source/docs"
  echo "STRIP_FROM_PATH = $PWD"
  echo "INPUT = $(git ls-files -- '*/include/tunesmith/*.h' | tr '\n' ' ')"
} | doxygen -

cmake --preset debug >/dev/null
cmake --build --preset debug --target _core_stub >"$work/build.log" || { cat "$work/build.log" >&2; exit 1; }
cp -r api/python/tunesmith "$work/python/tunesmith"
cp build/debug/python/tunesmith/_core.pyi "$work/python/tunesmith/"

# Not --quiet, which hides warnings from --strict, too.
if ! NO_MKDOCS_2_WARNING=1 "$work/environment/bin/mkdocs" build --strict --config-file docs/site/mkdocs.yml >"$work/site.log" 2>&1; then
  grep -E 'WARNING|ERROR|Error|Aborted' "$work/site.log" >&2
  exit 1
fi
echo "docs.sh: $work/site/index.html"
