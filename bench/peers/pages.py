"""Writes the generated parts of the published figures, or checks that they are current.

    python3 bench/peers/pages.py --tunesmith build/release/api/cli/tunesmith [--check]

Pages (README.md, docs/accuracy.md, bench/results/*.md) are written by hand around sections that this program fills from bench/plots/*.json:

    <!-- figures: brief softmax -->
    ...
    <!-- end of figures -->

The words after "figures:" name a function of sections.py and its arguments. A section names the commit of its figures and
says whether the kernels have changed since: --tunesmith reports the digests of the current ones. The pictures are drawn as
well, and the JSON is brought into its form of one line per cell. report.py prints all cells. Needs only Python.
"""
import argparse
import os
import re
import sys
import tempfile

import kernels
import plot
import results
import sections

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
# Files whose cells are drawn; each picture is drawn from the files of one line. A file that is not there has no picture.
DRAWN = (("softmax",), ("cross_entropy",), ("attention",), ("row_programs",))
SECTION = re.compile(r"(<!-- figures: (.+?) -->\n)(.*?)(<!-- end of figures -->)", re.S)


def pages(root):
    """Returns the paths of all pages with generated sections."""
    folder = os.path.join(root, "bench", "results")
    found = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".md")]
    others = (os.path.join(root, "README.md"), os.path.join(root, "docs", "accuracy.md"))
    return [*filter(os.path.exists, others), *found]


def filled(text, source):
    """Returns a page with every generated section written anew. `source`: sections.Source."""
    def fill(match):
        name, *arguments = match[2].split()
        lines = sections.SECTIONS[name](source, *arguments)
        return match[1] + ("\n" + "\n".join(lines) + "\n\n" if lines else "") + match[4]
    return SECTION.sub(fill, text)


def generated(root, digests):
    """Returns {path: contents} of everything that is generated: pages, pictures and JSON."""
    plots = os.path.join(root, "bench", "plots")
    source = sections.Source(plots, digests)
    found = {}
    for path in pages(root):
        with open(path) as file:
            found[path] = filled(file.read(), source)
    for name in sorted(os.listdir(plots)):
        if name.endswith(".json"):
            found[os.path.join(plots, name)] = results.dumps(results.read(os.path.join(plots, name)))
    with tempfile.TemporaryDirectory() as folder:
        for names in DRAWN:
            files = [os.path.join(plots, name + ".json") for name in names]
            for path in plot.draw([file for file in files if os.path.exists(file)], folder):
                with open(path) as file:
                    found[os.path.join(plots, os.path.basename(path))] = file.read()
        if sections.has_summary(source):
            picture = os.path.join(folder, "summary.svg")
            plot.summary(sections.summary_speeds(source), picture)
            with open(picture) as file:
                found[os.path.join(plots, "summary.svg")] = file.read()
    return found


def outdated(root, digests):
    """Returns {path: contents} of the generated files that differ from what is on disk."""
    def current(path):
        if not os.path.exists(path):
            return None
        with open(path) as file:
            return file.read()
    return {path: text for path, text in generated(root, digests).items() if text != current(path)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tunesmith", required=True, metavar="PROGRAM", help="command line that reports the kernels' digests")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page, picture or JSON file is outdated")
    parser.add_argument("--root", default=ROOT, help=argparse.SUPPRESS)
    args = parser.parse_args()
    found = outdated(args.root, kernels.current(args.tunesmith))
    for path, text in found.items():
        print(f"{os.path.relpath(path, args.root)}: {'outdated' if args.check else 'written'}")
        if not args.check:
            with open(path, "w") as file:
                file.write(text)
    if args.check and found:
        print("to bring them up to date: python3 bench/peers/pages.py --tunesmith PROGRAM")
    return 1 if args.check and found else 0


if __name__ == "__main__":
    sys.exit(main())
