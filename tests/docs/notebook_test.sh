#!/usr/bin/env bash
# notebook_test.sh PYTHON TUNESMITH: the notebook is that of the lessons. Where nbclient is installed, its cells run, too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python=$1
PATH=$(dirname "$(realpath "$2")"):$PATH
"$python" scripts/notebook.py --check
if ! "$python" -c 'import nbclient, nbformat, ipykernel' 2>/dev/null; then
  echo "the cells were not run: there is no nbclient"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
TUNESMITH_CACHE=$work/cache.db "$python" - "$PWD/docs/course/first_lessons.ipynb" "$work" <<'PYTHON'
import sys
import nbclient
import nbformat

notebook = nbformat.read(sys.argv[1], as_version=4)
# One cell shows an error on purpose.
for cell in notebook.cells:
    if "careless.row" in cell.source and cell.cell_type == "code" and cell.source.startswith("%%bash"):
        cell.metadata["tags"] = ["raises-exception"]
nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": sys.argv[2]}}).execute()
PYTHON
