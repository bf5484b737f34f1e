#!/usr/bin/env python3
"""Builds and runs the consumer program in one of the ways in which a project can use kvpage."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wsign-compare", "-Werror"]
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def run(command, env=None, fails_with=None):
    """Runs a command; with `fails_with` it must fail and say each of these words."""
    print("$", *command, flush=True)
    done = subprocess.run(command, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    print(done.stdout, flush=True)
    if fails_with is None and done.returncode != 0:
        sys.exit(f"exit code {done.returncode}")
    if fails_with is not None:
        words = " ".join(done.stdout.split())
        missing = [word for word in fails_with if word not in words]
        if done.returncode == 0 or missing:
            sys.exit(f"must fail with {fails_with}; exit code {done.returncode}, missing {missing}")
    return done.stdout


def cmake_build(project, work, *settings):
    build = work / "build"
    run(["cmake", "-S", str(HERE / project), "-B", str(build), "-G", "Ninja", f"-DCMAKE_CXX_FLAGS={' '.join(WARNINGS)}",
         "-DFETCHCONTENT_FULLY_DISCONNECTED=ON", *settings])
    run(["cmake", "--build", str(build)])
    run([str(build / "consumer")])


def install(work):
    """Installs kvpage, then moves the installed tree, as packagers do."""
    run(["cmake", "-S", str(ROOT), "-B", str(work / "kvpage"), "-G", "Ninja", "-DKVPAGE_TESTS=OFF", "-DKVPAGE_EXAMPLES=OFF",
         "-DKVPAGE_BENCH=OFF", f"-DCMAKE_INSTALL_PREFIX={work / 'first'}"])
    run(["cmake", "--install", str(work / "kvpage")])
    (work / "first").rename(work / "moved")
    text = "".join(p.read_text() for p in (work / "moved").rglob("*") if p.suffix in (".cmake", ".pc"))
    # A place begins behind a quote or a space: "lib/cmake/kvpage" does not name a checkout in /kvpage.
    if any(re.search(rf"(?<![\w}}.]){re.escape(str(place))}", text) for place in (work, ROOT)):
        sys.exit("the installed files name the place where they were built")
    return work / "moved"


def compile_and_run(work, compilers, flags, sources=("consumer.cpp", "other_unit.cpp")):
    for compiler in compilers:
        for standard in ("c++20", "c++2b"):
            program = work / "consumer"
            run([compiler, f"-std={standard}", *WARNINGS, *flags, *(str(HERE / s) for s in sources), "-o", str(program)])
            run([str(program)])


def add_subdirectory(work, _compilers):
    cmake_build("add_subdirectory", work, f"-DKVPAGE_SOURCE={ROOT}", "-DHOW=add_subdirectory")


def fetch_content(work, _compilers):
    cmake_build("add_subdirectory", work, f"-DKVPAGE_SOURCE={ROOT}", "-DHOW=fetch_content")


def find_package(work, _compilers):
    prefix = install(work)
    cmake_build("find_package", work, f"-DCMAKE_PREFIX_PATH={prefix}", "-DVERSION=0.1")
    ask = ["cmake", "-S", str(HERE / "find_package"), "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", "-B"]
    run([*ask, str(work / "v99"), "-DVERSION=99"], fails_with=["kvpage", '"99"', "version: 0.1"])
    run([*ask, str(work / "component"), "-DCOMPONENT=teleport"], fails_with=["kvpage has no component 'teleport'"])


def pkg_config(work, compilers):
    prefix = install(work)
    path = {"PKG_CONFIG_PATH": str(prefix / "share/pkgconfig")}
    flags = run(["pkg-config", "--cflags", "--libs", "kvpage"], env=path).split()
    run(["pkg-config", "--exists", "--print-errors", "kvpage >= 99"], env=path, fails_with=["kvpage", ">= 99"])
    compile_and_run(work, compilers, flags)


def raw_include(work, compilers):
    compile_and_run(work, compilers, [f"-I{ROOT / 'include'}"])


def without_exceptions(work, compilers):
    compile_and_run(work, compilers, [f"-I{ROOT / 'include'}", "-fno-exceptions", "-fno-rtti"], ["without_exceptions.cpp"])


def several_versions(work, compilers):
    """Another minor version and another assert level share no symbol with the shipped one, so they can live in one program."""
    newer = work / "newer"
    shutil.copytree(ROOT / "include", newer)
    header = newer / "kvpage/base/version.hpp"
    text = header.read_text()
    minor = int(re.search(r"VERSION_MINOR (\d+)", text)[1])
    header.write_text(text.replace(f"VERSION_MINOR {minor}", f"VERSION_MINOR {minor + 1}"))
    units = {"shipped": (ROOT / "include", 1), "checked": (ROOT / "include", 2), "newer": (newer, 1)}
    for compiler in compilers:
        symbols = {}
        for unit, (include, level) in units.items():
            obj = str(work / f"{unit}.o")
            run([compiler, "-std=c++20", *WARNINGS, f"-I{include}", f"-DKVPAGE_ASSERT_LEVEL={level}", f"-DKVPAGE_UNIT={unit}_unit",
                 "-c", str(HERE / "one_of_several.cpp"), "-o", obj])
            names = subprocess.run(["nm", "--defined-only", "-f", "posix", obj], stdout=subprocess.PIPE, text=True, check=True).stdout
            symbols[unit] = {line.split()[0] for line in names.splitlines() if "6kvpage" in line}
        for one, other in (("shipped", "checked"), ("shipped", "newer"), ("checked", "newer")):
            if not symbols[one] or symbols[one] & symbols[other]:
                sys.exit(f"{one} and {other} share symbols: {sorted(symbols[one] & symbols[other])[:5]}")
        run([compiler, "-std=c++20", *WARNINGS, str(HERE / "several_versions.cpp"), *(str(work / f"{u}.o") for u in units),
             "-o", str(work / "program")])
        run([str(work / "program")])


WAYS = (add_subdirectory, fetch_content, find_package, pkg_config, raw_include, without_exceptions, several_versions)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=[way.__name__ for way in WAYS])
    parser.add_argument("--work", required=True, help="scratch folder; emptied first")
    parser.add_argument("--compiler", action="append", required=True)
    options = parser.parse_args()
    work = pathlib.Path(options.work)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    next(way for way in WAYS if way.__name__ == options.way)(work, options.compiler)


if __name__ == "__main__":
    main()
