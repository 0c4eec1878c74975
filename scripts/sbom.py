"""sbom.py VERSION COMMIT EPOCH ARCHIVE=BUILD...: prints a bill of materials (CycloneDX 1.5, JSON) of a release.

ARCHIVE: the name of a file of the release; BUILD: the folder of its build (Ninja). What a build uses is read from the
build itself: static libraries and headers from its link commands and dependencies, shared libraries from the files that it
linked. Debian's packages give versions and licences, and the dist-info of Python packages theirs. A file that belongs to no
package, and a package without a licence, is an error.
"""

import json
import os
import re
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from email.parser import HeaderParser
from pathlib import Path

# Debian's short names of licences that SPDX writes differently.
SPDX = {"Expat": "MIT", "BSD-2-clause": "BSD-2-Clause", "BSD-3-clause": "BSD-3-Clause", "GPL-2+": "GPL-2.0-or-later"}
# Debian's copyright files of these sources are not in the machine-readable format.
UNSTRUCTURED = {
    "gcc": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "glibc": "LGPL-2.1-or-later",
}
# Names of licences that SPDX has no identifier for.
NAMED = {"public-domain"}
# Headers of the compiler and the C library: their libraries are listed as shared ones.
TOOLCHAIN = re.compile(r"^(libc6-dev|libstdc\+\+-.*-dev|libgcc-.*-dev|linux-libc-dev|libcrypt-dev)")


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def is_outside(file: Path) -> bool:
    """Reports whether a file comes from elsewhere: the system, a Python environment, or a folder with unpacked packages."""
    if re.search(r"/site-packages/|root/usr/", str(file)):
        return True
    return not file.is_relative_to(Path(__file__).resolve().parent.parent)


def headers(build: Path) -> set[Path]:
    lines = (line.strip() for line in output("ninja", "-C", str(build), "-t", "deps").splitlines() if line[:1] == " ")
    found = {Path(os.path.normpath(build / line)) for line in lines}
    return {file for file in found if is_outside(file)}


def linked(build: Path) -> tuple[set[Path], set[Path]]:
    """Returns the static libraries from outside of the build, and the shared libraries that it needs at run time."""
    commands = output("ninja", "-C", str(build), "-t", "commands")
    static = {Path(word) for word in re.findall(r"(?<=\s)/[^\s,:]+\.a\b", commands)}
    names: set[str] = set()
    for made in [*build.glob("api/libtunesmith.so*"), *build.glob("api/cli/tunesmith"), *build.glob("api/python/_core*.so")]:
        names.update(re.findall(r"NEEDED.*\[(.+)\]", output("readelf", "--dynamic", str(made))))
    known = dict(re.findall(r"^\s+(\S+) .*=> (\S+)$", output("/sbin/ldconfig", "-p"), re.MULTILINE)[::-1])
    shared = {Path(known[name]) for name in names if not name.startswith(("libtunesmith", "ld-linux"))}
    return {file for file in static if is_outside(file)}, shared


def debian_packages(files: set[Path]) -> set[str]:
    # Files of another root belong to the packages that this system has in its own.
    names = {re.sub(r"^.*root(?=/usr/)", "", str(file.resolve())) for file in files}
    owners = subprocess.run(["dpkg-query", "--search", *sorted(names)], check=False, capture_output=True, text=True).stdout
    found = {line.rsplit(": ", 1)[1]: line.split(": ", 1)[0].split(",")[0] for line in owners.splitlines()}
    if missing := names - found.keys():
        # Where /lib is a link to /usr/lib, the database may have the other name.
        again = output("dpkg-query", "--search", *sorted(name.removeprefix("/usr") for name in missing))
        found |= {"/usr" + line.rsplit(": ", 1)[1]: line.split(": ", 1)[0].split(",")[0] for line in again.splitlines()}
    if missing := names - found.keys():
        sys.exit(f"sbom.py: no package has {sorted(missing)[0]}")
    return set(found.values())


def licence(source: str, package: str) -> dict[str, object]:
    if name := next((text for start, text in UNSTRUCTURED.items() if source.startswith(start)), None):
        return {"expression": name}
    text = Path("/usr/share/doc", package.split(":")[0], "copyright").read_text(encoding="utf-8")
    stanza = re.search(r"^Files: \*.*?^License: *(\S[^\n]*)", text, re.MULTILINE | re.DOTALL) or re.search(
        r"^License: *(\S[^\n]*)", text, re.MULTILINE
    )
    if stanza is None:
        sys.exit(f"sbom.py: the licence of {package} was not found")
    name = stanza.group(1).strip()
    return {"license": {"name": name} if name in NAMED else {"id": SPDX.get(name, name)}}


def debian_component(package: str) -> dict[str, object]:
    form = "${source:Package}\t${source:Version}\t${source:Upstream-Version}"
    source, version, upstream = output("dpkg-query", "--show", "--showformat", form, package).split("\t")
    return {
        "type": "library",
        "name": source,
        "version": re.sub(r"[+.](dfsg|ds).*", "", upstream),
        "licenses": [licence(source, package)],
        "purl": f"pkg:deb/debian/{source}@{version}",
    }


def python_itself(headers: set[Path]) -> dict[str, object]:
    """The interpreter's headers, which need not be Debian's."""
    patchlevel = next(file for file in headers if file.name == "patchlevel.h").read_text(encoding="utf-8")
    version = re.findall(r'PY_VERSION +"(.+)"', patchlevel)[0]
    return {
        "type": "library",
        "name": "cpython",
        "version": version,
        "licenses": [{"license": {"id": "PSF-2.0"}}],
        "purl": f"pkg:generic/cpython@{version}",
    }


def python_components(files: set[Path]) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for file in files:
        folder, _, inside = str(file).partition("/site-packages/")
        name = inside.split("/")[0]
        if name in found:
            continue
        metadata = next(Path(folder, "site-packages").glob(f"{name}-*.dist-info/METADATA"), None)
        if metadata is None:
            sys.exit(f"sbom.py: the version of {name} ({file}) is unknown")
        fields = HeaderParser().parsestr(metadata.read_text(encoding="utf-8"))
        stated = fields["License-Expression"] or fields["License"]
        classified = [line.rsplit(" :: ", 1)[1] for line in fields.get_all("Classifier", []) if "License" in line]
        stated = stated or ", ".join(classified)
        found[name] = {
            "type": "library",
            "name": fields["Name"],
            "version": fields["Version"],
            "licenses": [{"license": {"name": stated.splitlines()[0]}}],
            "purl": f"pkg:pypi/{fields['Name'].lower()}@{fields['Version']}",
        }
    return found


def components(archives: dict[str, Path]) -> list[dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    uses: dict[str, set[tuple[str, str]]] = {}
    for archive, build in archives.items():
        used_headers = headers(build)
        packages_of_python = {file for file in used_headers if "/site-packages/" in str(file)}
        interpreter = {file for file in used_headers - packages_of_python if "/include/python3." in str(file)}
        debian = used_headers - packages_of_python - interpreter
        static, shared = linked(build)
        static_python = {file for file in static if "/site-packages/" in str(file)}
        kinds = {
            "headers": {name for name in debian_packages(debian) if not TOOLCHAIN.match(name)},
            "static library": debian_packages(static - static_python) if static - static_python else set(),
            "shared library of the system": debian_packages(shared),
        }
        for kind, packages in kinds.items():
            for package in packages:
                component = debian_component(package)
                found.setdefault(str(component["purl"]), component)
                uses.setdefault(str(component["purl"]), set()).add((archive, kind))
        of_python = [*python_components(packages_of_python | static_python).values()]
        for component in [*of_python, *([python_itself(interpreter)] if interpreter else [])]:
            found.setdefault(str(component["purl"]), component)
            uses.setdefault(str(component["purl"]), set()).add((archive, "headers"))
    for purl, component in found.items():
        component["bom-ref"] = purl
        component["properties"] = [{"name": f"tunesmith:{archive}", "value": kind} for archive, kind in sorted(uses[purl])]
    return [found[purl] for purl in sorted(found)]


def main() -> None:
    version, commit, epoch, *pairs = sys.argv[1:]
    archives = {name: Path(build).resolve() for name, build in (pair.split("=", 1) for pair in pairs)}
    parts = components(archives)
    product = {
        "type": "library",
        "bom-ref": "tunesmith",
        "name": "tunesmith",
        "version": version,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
        "properties": [{"name": "tunesmith:commit", "value": commit}],
    }
    json.dump(
        {
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            # Of the commit, so that the same release has the same number.
            "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'tunesmith {version} {commit}')}",
            "version": 1,
            "metadata": {
                "timestamp": datetime.fromtimestamp(int(epoch), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "component": product,
            },
            "components": parts,
            "dependencies": [{"ref": "tunesmith", "dependsOn": [part["bom-ref"] for part in parts]}],
        },
        sys.stdout,
        indent=2,
    )
    print()


if __name__ == "__main__":
    main()
