"""Builds the tests of one subject with mutants in the headers, and runs them.

Test files of a folder share a compilation, each in a namespace of its own: what they include is included before. A run of one of them
names it by its Catch2 tag.
"""

import concurrent.futures
import dataclasses
import math
import os
import pathlib
import re
import resource
import shutil
import subprocess

import places
from places import ROOT

TESTS_ROOT = ROOT / "tests"
# Beside the sources whose headers a test includes.
FURTHER_PARTS = {"kernels/paged_attention/attention_problem.cpp": ["kernels/paged_attention/attention_storages.cpp"],
                 "custom_precision/own_kv_test.cpp": ["kernels/paged_attention/attention_problem.cpp",
                                                      "kernels/paged_attention/attention_storages.cpp"]}
LEAST_CPU_LIMIT_S = 10
ENVIRONMENT = {**os.environ, "KVPAGE_NIGHT": "0", "KVPAGE_MODEL_OPS": "200000"}


class BrokenCheck(Exception):
    """The check itself cannot be made."""


def text_of(source):
    return (TESTS_ROOT / source).read_text(encoding="utf-8")


def includes_of(source):
    """Its #include lines; what lies beside the source is named in full."""
    def in_full(match):
        beside = (TESTS_ROOT / source).parent / match[1]
        return f'#include "{beside}"' if beside.is_file() else match[0]
    return [re.sub(r'#include "(.+)"', in_full, line) for line in re.findall(r"^#include .+$", text_of(source), re.MULTILINE)]


def sources_beside(source):
    """The sources of the headers that it includes, and what they need."""
    included = re.findall(r'^#include "(.+)\.hpp"$', text_of(source), re.MULTILINE)
    beside = [(TESTS_ROOT / source).parent / f"{name}.cpp" for name in included] + [TESTS_ROOT / f"{name}.cpp" for name in included]
    found = [path.relative_to(TESTS_ROOT).as_posix() for path in beside if path.is_file()]
    return list(dict.fromkeys(found + [more for part in [source, *found] for more in FURTHER_PARTS.get(part, [])]))


@dataclasses.dataclass(frozen=True)
class Unit:
    """A test program: test files that are compiled together, and further sources."""
    name: str
    sources: tuple

    @property
    def further_sources(self):
        return list(dict.fromkeys(part for source in self.sources for part in sources_beside(source)))

    def text(self):
        if len(self.sources) == 1:
            return f'#include "{TESTS_ROOT / self.sources[0]}"\n'
        lines = dict.fromkeys(line for source in self.sources for line in includes_of(source))
        files = [f'namespace unit_{i} {{\n#include "{TESTS_ROOT / source}"\n}}\n' for i, source in enumerate(self.sources)]
        return "\n".join(lines) + "\n" + "".join(files)


def units_of(sources):
    """One of each folder; a file with a namespace of its own cannot stand inside of another one."""
    groups = {}
    for source in sources:
        alone = re.search(r"^namespace [\w:]+ \{", text_of(source), re.MULTILINE)
        groups.setdefault(source if alone else source.rpartition("/")[0], []).append(source)
    return [Unit(name.replace("/", "."), tuple(group)) for name, group in groups.items()]


class Workshop:
    """A copy of the headers with mutants in it, and the test programs that are built with them."""

    def __init__(self, folder, compiler, catch_main):
        self.folder, self.compiler, self.catch_main = folder, compiler, catch_main

    def plant(self, numbered):
        shutil.rmtree(self.folder / "include", ignore_errors=True)
        shutil.copytree(ROOT / "include", self.folder / "include")
        places.write_mutants(self.folder, numbered)

    def compile(self, arguments):
        flags = ["-std=c++20", "-O1", "-ffp-contract=off", "-DKVPAGE_ASSERT_LEVEL=2", f'-DKVPAGE_TEST_DATA_DIR="{ROOT}/tests/data"',
                 "-Iinclude", "-include", f"include/{places.SWITCH.name}", f"-I{ROOT}/examples", f"-I{ROOT}/tests", "-w"]
        return subprocess.run([*self.compiler, *flags, *arguments], cwd=self.folder, text=True, capture_output=True, check=False)

    def broken_lines(self, units):
        """Compiles the units; (path, line) of the headers that errors name: there a mutant is no program. None: everything is built."""
        sources = {}
        for unit in units:
            (self.folder / f"{unit.name}.cpp").write_text(unit.text(), encoding="utf-8")
            sources[f"{unit.name}.cpp"] = None
            sources |= dict.fromkeys(str(TESTS_ROOT / part) for part in unit.further_sources)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            jobs = [pool.submit(self.compile, ["-c", source, "-o", object_of(source)]) for source in sources]
            for job in concurrent.futures.as_completed(jobs):
                if job.result().returncode == 0:
                    continue
                pool.shutdown(wait=False, cancel_futures=True)
                text = job.result().stderr
                lines = {(path, int(line)) for path, line in re.findall(r"\b(include/kvpage/[\w/.]+):(\d+):", text)}
                if not lines:
                    raise BrokenCheck(f"a test does not compile\n{text[-3000:]}")
                return lines
        return set()

    def link(self, unit):
        """The test program of a unit whose sources are compiled."""
        program = self.folder / f"{unit.name}.bin"
        objects = [object_of(source) for source in [f"{unit.name}.cpp", *unit.further_sources]]
        done = self.compile([*objects, str(self.catch_main), "-pthread", "-o", str(program)])
        if done.returncode != 0:
            raise BrokenCheck(f"{unit.name} is not linked\n{done.stderr[-3000:]}")
        return program


def object_of(source):
    return source.removeprefix(f"{TESTS_ROOT}/").replace("/", ".") + ".o"


def run_tests(program, source, cpu_limit_s, **environment):
    """What the tests of a file say; it fails when they take more processor time. The wall clock depends on who else is there."""
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_limit_s, cpu_limit_s + 5))
    command = [program, "--filenames-as-tags", f"[#{pathlib.PurePath(source).stem}]~[night]", "--abort"]
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=60 * cpu_limit_s, text=True, errors="replace",
                              env={**ENVIRONMENT, **environment}, cwd=program.parent, preexec_fn=limit)
    except subprocess.TimeoutExpired as error:
        return subprocess.CompletedProcess(command, 1, str(error))


@dataclasses.dataclass
class CleanRun:
    """The tests of a file without a mutant: their processor time and which mutants' code they reach."""
    source: str
    program: pathlib.Path
    cpu_s: float
    reached: set


def run_clean(source, program):
    reached = program.with_suffix(".reached")
    reached.unlink(missing_ok=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run_tests(program, source, 1200, KVPAGE_MUTANT="0", KVPAGE_MUTANTS_REACHED=str(reached))
    if done.returncode != 0 or "All tests passed" not in done.stdout:
        raise BrokenCheck(f"{source} fails without a mutant\n{done.stdout[-3000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    numbers = reached.read_text(encoding="utf-8").split() if reached.is_file() else []  # no file: it asked for none
    return CleanRun(source, program, cpu_s, {int(number) for number in numbers})


def first_finding(number, clean_runs):
    """The test file that finds mutant `number`; None: none does."""
    for clean in sorted(clean_runs, key=lambda run: run.cpu_s):
        limit_s = math.ceil(LEAST_CPU_LIMIT_S + 5 * clean.cpu_s)
        if number in clean.reached and run_tests(clean.program, clean.source, limit_s, KVPAGE_MUTANT=str(number)).returncode != 0:
            return clean.source
    return None
