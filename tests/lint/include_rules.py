"""Which folder may include which: dependencies point one way, and the library includes only itself and std."""

import collections
import re

import cpp_text
from lint import Violation

NAME = "include_rules"
LAYERS = {
    "base": set(),
    "precision": {"base"},
    "quant": {"base", "precision"},
    "simt": {"base"},
    "exec": {"base"},
    "kv": {"base", "precision"},
    "cache": {"base"},
    "kernels": {"base", "precision", "quant", "simt", "exec", "kv"},
    "sched": {"base", "cache", "kv"},
    "spec": {"base", "sched", "kernels"},
    "comm": {"base"},
}
# All that sched/ may see of kv/: where a token and a sequence lie in a step, not in which bytes.
PLAIN_KV = {"kv_slot.hpp", "query_span.hpp"}
COMPILER_HEADERS = {"immintrin.h", "cpuid.h", "arm_neon.h"}
# The system's entropy: std::random_device lies in <random>, which would be a fifth of what an allocator costs to compile.
SYSTEM_HEADERS = {"include/kvpage/base/entropy.hpp": {"unistd.h", "sys/random.h"}}
CUDA_HEADER = re.compile(r"cu\w+\.h(pp)?|cu\w+/.*|cub/.*|cooperative_groups.*")
UMBRELLAS = {"kvpage/kvpage.hpp", "kvpage/kvpage.cuh"}


def check(tree):
    for path in tree.sources(("include",)):
        for line, include in cpp_text.includes(tree.text(path)):
            reason = refusal(tree, path, include)
            if reason:
                yield Violation(path, line, f"{include}: {reason}")
    for path in tree.sources(("examples", "tests", "bench")):
        for line, include in cpp_text.includes(tree.text(path)):
            if re.match(r'"(\.\./|.*/\.\./|kvpage/|include/)', include):
                yield Violation(path, line, f"{include}: the library is included as <kvpage/...>, own files from their root folder")
    yield from folder_cycles(tree)


def folder_cycles(tree):
    """Folders of the examples include each other one way, over any number of folders between."""
    uses = collections.defaultdict(list)
    for path in tree.sources(("examples",)):
        for line, include in cpp_text.includes(tree.text(path)):
            target = f"examples/{include[1:-1]}"
            here, there = path.rpartition("/")[0], target.rpartition("/")[0]
            if include.startswith('"') and here != there and tree.exists(target):
                uses[here].append((there, path, line, include))
    for here, edges in uses.items():
        for there, path, line, include in edges:
            if here in reached_from(there, uses):
                yield Violation(path, line, f"{include}: {there} includes {here} too, itself or through others")


def reached_from(folder, uses):
    reached, open_folders = set(), [folder]
    while open_folders:
        for there, *_ in uses.get(open_folders.pop(), ()):
            if there not in reached:
                reached.add(there)
                open_folders.append(there)
    return reached


def refusal(tree, path, include):
    name = include[1:-1]
    if include.startswith('"'):
        return "the library includes with <...> only"
    if not name.startswith("kvpage/"):
        return outside_refusal(path, name)
    if name in UMBRELLAS:
        return "the umbrella is for users, never included by kvpage itself"
    if not tree.exists(f"include/{name}"):
        return "no such header"
    if path.endswith(".hpp") and name.endswith(".cuh"):
        return "a .hpp never includes a .cuh"
    return None if path.removeprefix("include/") in UMBRELLAS else layer_refusal(path, name)


def outside_refusal(path, name):
    if re.fullmatch(r"[a-z_0-9]+", name) or name in COMPILER_HEADERS | SYSTEM_HEADERS.get(path, set()):
        return None
    if CUDA_HEADER.fullmatch(name):
        return None if path.endswith(".cuh") else "CUDA headers only in .cuh"
    return "the library depends on std alone"


def layer_refusal(path, name):
    here, there = path.split("/")[2:], name.split("/")[1:]
    if here[0] not in LAYERS:
        return f"{here[0]} is no layer"
    if here[0] == "kernels" and len(here) != 3:
        return "a kernel header lies in kernels/<op>/"
    if there[0] == here[0]:
        return "an operation never includes another one" if here[0] == "kernels" and here[1] != there[1] else None
    if there[0] not in LAYERS[here[0]]:
        return f"{here[0]} may include {', '.join(sorted(LAYERS[here[0]])) or 'nothing'}"
    if here[0] == "sched" and there[0] == "kv" and there[-1] not in PLAIN_KV:
        return f"sched sees only {', '.join(sorted(PLAIN_KV))} of kv"
    if here[0] == "spec" and there[0] == "kernels" and there[1] != "verify_tokens":
        return "spec sees only kernels/verify_tokens"
    return None


def _tree(**files):
    """include/kvpage files by short path; every include of a fixture exists."""
    empty = ["base/a.hpp", "precision/f.hpp", "kv/kv_layout.hpp", "kv/kv_slot.hpp", "cache/block_table.hpp", "kernels/x/cpu.hpp",
             "kernels/verify_tokens/args.hpp", "sched/s.hpp", "kernels/x/kernel.cuh", "kvpage.hpp"]
    tree = {f"include/kvpage/{path}": "" for path in empty}
    return tree | {(path if "/" in path and path.split("/")[0] in ("examples", "tests") else f"include/kvpage/{path}"): text
                   for path, text in files["files"].items()}


def _reject(path, include, reason):
    shown = path if path.startswith(("examples", "tests")) else f"include/kvpage/{path}"
    files = _tree(files={path: f"// #include <nothing/x.h>\n#include {include}\n"})
    return (f"{path} includes {include}", files, [f"{shown}:2: {include}: {reason}"])


FIXTURES = [
    ("allowed edges", _tree(files={
        "precision/p.hpp": "#include <vector>\n#include <kvpage/base/a.hpp>\n",
        "cache/block_allocator.hpp": "#include <kvpage/base/a.hpp>\n#include <kvpage/cache/block_table.hpp>\n",
        "kernels/y/cpu.hpp": "#include <immintrin.h>\n#include <kvpage/kv/kv_layout.hpp>\n#include <kvpage/precision/f.hpp>\n",
        "base/entropy.hpp": "#include <unistd.h>\n",
        "kernels/y/kernel.cuh": "#include <cuda_runtime.h>\n#include <kvpage/kernels/y/cpu.hpp>\n",
        "sched/t.hpp": "#include <kvpage/cache/block_allocator.hpp>\n#include <kvpage/kv/kv_slot.hpp>\n#include <kvpage/sched/s.hpp>\n",
        "kvpage.hpp": "#include <kvpage/sched/s.hpp>\n",
        "examples/engine/e.cpp": '#include "engine/e.hpp"\n#include <kvpage/sched/s.hpp>\n',
    }), []),
    ("folders in a circle", {
        "examples/engine/e.hpp": '#include "engine/a/x.hpp"\n',
        "examples/engine/a/x.hpp": '#include "engine/a/z.hpp"\n#include "engine/b/y.hpp"\n',
        "examples/engine/a/z.hpp": "",
        "examples/engine/b/y.hpp": '#include "engine/c/w.hpp"\n',
        "examples/engine/c/w.hpp": '#include <vector>\n#include "engine/a/z.hpp"\n',
    }, ['examples/engine/a/x.hpp:2: "engine/b/y.hpp": examples/engine/b includes examples/engine/a too',
        'examples/engine/b/y.hpp:1: "engine/c/w.hpp": examples/engine/c includes examples/engine/b too',
        'examples/engine/c/w.hpp:2: "engine/a/z.hpp": examples/engine/a includes examples/engine/c too']),
    _reject("base/b.hpp", "<kvpage/precision/f.hpp>", "base may include nothing"),
    _reject("precision/p.hpp", '"f.hpp"', "the library includes with"),
    _reject("base/b.hpp", "<unistd.h>", "the library depends on std alone"),
    _reject("precision/p.hpp", "<nlohmann/json.hpp>", "the library depends on std alone"),
    _reject("precision/p.hpp", "<cuda_fp16.h>", "CUDA headers only in .cuh"),
    _reject("precision/p.hpp", "<kvpage/base/gone.hpp>", "no such header"),
    _reject("precision/p.hpp", "<kvpage/kvpage.hpp>", "the umbrella"),
    _reject("cache/eviction_lru.hpp", "<kvpage/precision/f.hpp>", "cache may include"),
    _reject("cache/block_table.hpp", "<kvpage/kv/kv_slot.hpp>", "cache may include"),
    _reject("kv/kv_view.hpp", "<kvpage/cache/block_table.hpp>", "kv may include"),
    _reject("kernels/y/cpu.hpp", "<kvpage/kernels/x/cpu.hpp>", "an operation never includes"),
    _reject("kernels/y/cpu.hpp", "<kvpage/kernels/x/kernel.cuh>", "a .hpp never includes"),
    _reject("kernels/y/cpu.hpp", "<kvpage/cache/block_table.hpp>", "kernels may include"),
    _reject("kernels/y.hpp", "<kvpage/base/a.hpp>", "a kernel header lies in"),
    _reject("sched/t.hpp", "<kvpage/kernels/x/cpu.hpp>", "sched may include"),
    _reject("sched/t.hpp", "<kvpage/kv/kv_layout.hpp>", "sched sees only"),
    _reject("spec/v.hpp", "<kvpage/kernels/x/cpu.hpp>", "spec sees only"),
    _reject("misc/m.hpp", "<kvpage/base/a.hpp>", "misc is no layer"),
    _reject("examples/engine/e.cpp", '"kvpage/base/a.hpp"', "the library is included as"),
    _reject("tests/a/a_test.cpp", '"../support/catch.hpp"', "the library is included as"),
]
