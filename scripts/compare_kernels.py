#!/usr/bin/env python3
"""Compares the machine code that two versions of the templates compile to.

  scripts/compare_kernels.py --old "env TUNESMITH_TEMPLATES=OLD/templates BUILD/tunesmith" --new BUILD/tunesmith [--sample 20]

Renders every shipped tuning record (cache/shipped/records.jsonl) and every line of tests/templates/kernel_variants.txt with
both commands. Where the code differs, compiles both with NVRTC for the record's architecture and compares the instructions,
constants and shared memory of each entry point. Comments, line numbers and names inside a kernel do not matter. Prints one line per kernel that
differs, with register counts, then the totals; exits 1 if any differs. Needs no GPU.

--relabel writes the new templates' digest into the shipped records that had the old one and whose kernels are the same.

"moved" marks kernels whose instructions are the same in PTX too but whose shared arrays lie in another order, which depends
on what else the source declares. A record whose kernels are all identical, or moved, may carry the new digest: the kernel
that was measured is the kernel that runs.
"""

import argparse
import concurrent.futures
import ctypes
import ctypes.util
import hashlib
import json
import pathlib
import re
import shlex
import struct
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Nvrtc:
    """The compiler library, opened once per process."""

    _library = None

    @classmethod
    def library(cls, name):
        if cls._library is None:
            cls._library = ctypes.CDLL(name)
        return cls._library


def nvrtc_path():
    return ctypes.util.find_library("nvrtc") or "libnvrtc.so"


def compile_to_cubin(library_name, source, arch):
    """Returns (cubin, log). Raises RuntimeError with the compiler's log."""
    nvrtc = Nvrtc.library(library_name)
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    options = [f"--gpu-architecture={arch}".encode(), b"--std=c++20", b"--ptxas-options=-v"]
    result = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))

    def fetch(get_size, get):
        size = ctypes.c_size_t()
        get_size(program, ctypes.byref(size))
        data = ctypes.create_string_buffer(size.value)
        get(program, data)
        return data.raw

    log = fetch(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).decode(errors="replace")
    if result != 0:
        raise RuntimeError(log)
    cubin = fetch(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin, log


def sections(cubin):
    """Yields (name, type, size, bytes) of an ELF file's sections."""
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + i * size) for i in range(count)]
    strings = headers[names][4]
    for name, kind, _, _, offset, length, *_ in headers:
        end = cubin.index(b"\0", strings + name)
        data = b"" if kind == 8 else cubin[offset : offset + length]  # 8: no bits in the file, such as shared memory
        yield cubin[strings + name : end].decode(), kind, length, data


def kernels_of(cubin, log):
    """Entry point -> (digest of its code, registers)."""
    registers = {}
    entry = None
    for line in log.splitlines():
        if found := re.search(r"entry function '(\w+)'", line):
            entry = found.group(1)
        elif found := re.search(r"Used (\d+) registers", line):
            registers[entry] = int(found.group(1))
    codes = {}
    for name, _, length, data in sections(cubin):
        kind, _, kernel = name[1:].rpartition(".")
        if re.match(r"\.(text|nv\.constant\d+|nv\.shared)\.(?!reserved)", name):
            codes.setdefault(kernel, hashlib.sha256()).update(f"{kind} {length}".encode() + data)
    return {kernel: (code.hexdigest(), registers.get(kernel)) for kernel, code in codes.items()}


def render(command, problem):
    op, fields, arch, config = problem
    arguments = [*shlex.split(command), "source", op, "--arch", arch, "--config", config]
    for field, value in fields:
        arguments += ["--option", f"{field}={value}"]
    found = subprocess.run(arguments, capture_output=True, text=True)
    if found.returncode != 0:
        raise RuntimeError(found.stderr.strip())
    return found.stdout


def ptx_bodies(library_name, source, arch):
    """Entry point -> its PTX, with names and registers replaced by the order in which they first occur."""
    nvrtc = Nvrtc.library(library_name)
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    options = [f"--gpu-architecture={arch.replace('sm', 'compute')}".encode(), b"--std=c++20"]
    nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    data = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, data)
    bodies = {}
    # Up to the next entry: inline assembly has lines with a closing brace of its own.
    for found in re.finditer(r"^\.visible \.entry (\w+)\(.*?(?=^\.visible \.entry|\Z)", data.value.decode(), re.MULTILINE | re.DOTALL):
        order = {}
        bodies[found.group(1)] = re.sub(r"_Z\w+|\$L__BB\w+|%\w+<?\d+", lambda name: f"name{order.setdefault(name.group(), len(order))}",
                                        found.group().split("\n\n", 1)[-1])
    return bodies


def code_of(source):
    """The source without lines that the compiler ignores."""
    return "\n".join(line for line in source.splitlines() if line and not line.startswith(("#line", "//")))


def kernels_from(source, arch, library, keep):
    """Kernels of a source; compiled once for equal code when `keep` names a folder."""
    kept = keep and pathlib.Path(keep) / (hashlib.sha256((arch + code_of(source)).encode()).hexdigest() + ".json")
    if kept and kept.exists():
        return {name: tuple(kernel) for name, kernel in json.loads(kept.read_text()).items()}
    kernels = kernels_of(*compile_to_cubin(library, source, arch))
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(kernels))
    return kernels


def compare(job):
    problem, options = job
    arch = problem[2]
    try:
        sources = [render(command, problem) for command in (options.old, options.new)]
        if code_of(sources[0]) == code_of(sources[1]):
            return ""
        old, new = (kernels_from(source, arch, options.nvrtc, options.keep) for source in sources)
    except RuntimeError as error:
        return f"FAILED: {error}"
    lines = []
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if before is None or after is None or before[0] != after[0]:
            count = [str(kernel[1]) if kernel else "no kernel" for kernel in (before, after)]
            lines.append([name, f"differs, {count[0]} -> {count[1]} registers"])
    if lines:
        before, after = (ptx_bodies(options.nvrtc, source, arch) for source in sources)
        for line in lines:
            if line[0] in before and before[line[0]] == after.get(line[0]):
                line[1] = "moved"
    return "; ".join(" ".join(line) for line in lines)


def differs(found):
    """Returns whether the result of compare() is of another kernel, not of one whose shared arrays moved."""
    return "differs" in found or "FAILED" in found


def fields_of(text):
    """ "rows=4,mask_mod=a%2Cb" -> [("rows", "4"), ("mask_mod", "a,b")]"""
    return [(urllib.parse.unquote(key), urllib.parse.unquote(value)) for key, value in
            (field.split("=", 1) for field in text.split(",") if field)]


def shipped_problems():
    for line in (ROOT / "cache/shipped/records.jsonl").read_text().splitlines():
        record = json.loads(line)
        op, _, fields = record["problem"].partition(" ")
        yield op, fields_of(fields), record["device_class"].split(";")[1], record["config"]


def digests_of(command):
    """Operation -> digest of its templates."""
    found = subprocess.run([*shlex.split(command), "ops", "--json"], capture_output=True, text=True, check=True)
    return {op["op"]: op["templates"] for op in json.loads(found.stdout)}


def relabel(same, old, new):
    """Gives the records in the lines `same` the new digest. Returns the number of changed lines."""
    path = ROOT / "cache/shipped/records.jsonl"
    lines = path.read_text().splitlines()
    changed = 0
    for i in same:
        op = json.loads(lines[i])["op"]
        line = lines[i].replace(f'"template_digest":"{old[op]}"', f'"template_digest":"{new[op]}"')
        changed += line != lines[i]
        lines[i] = line
    path.write_text("\n".join(lines) + "\n")
    return changed


def variant_problems():
    for line in (ROOT / "tests/templates/kernel_variants.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            op, arch, config, fields = line.split(" ", 3)
            yield op, fields_of(fields), arch, config


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True, help="command that renders the old kernels")
    parser.add_argument("--new", required=True, help="command that renders the new kernels")
    parser.add_argument("--only", choices=["records", "variants"], help="leave out the others")
    parser.add_argument("--sample", type=int, default=1, help="every SAMPLE-th problem only")
    parser.add_argument("--match", default="", help="only problems whose line contains this regular expression")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", help="folder for the results of compilations, reused by later runs")
    parser.add_argument("--relabel", action="store_true", help="update the digests of shipped records")
    parser.add_argument("--nvrtc", default=nvrtc_path(), help="path of libnvrtc")
    options = parser.parse_args()
    problems = []
    if options.only != "variants":
        problems += shipped_problems()
    records = len(problems)
    if options.only != "records":
        problems += variant_problems()
    text = [f"{op} {arch} {config} " + ",".join(f"{key}={value}" for key, value in fields) for op, fields, arch, config in problems]
    chosen = [i for i in range(len(problems)) if re.search(options.match, text[i])][:: options.sample]
    differing = moved = 0
    same = set(chosen)
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        for i, found in zip(chosen, pool.map(compare, [(problems[i], options) for i in chosen])):
            if found:
                if differs(found):
                    differing += 1
                    same.discard(i)
                else:
                    moved += 1
                print(f"{text[i][:240]!r}: {found}", flush=True)
    if options.relabel:
        changed = relabel(sorted(i for i in same if i < records), digests_of(options.old), digests_of(options.new))
        print(f"{changed} records have the new digest")
    print(f"{len(chosen)} problems: {len(chosen) - differing - moved} identical, {moved} moved, {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
