"""Which folder may include which: dependencies point one way, and the library includes only itself and std."""

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
    "cache": {"base", "precision", "exec"},
    "kernels": {"base", "precision", "quant", "simt", "exec", "cache"},
    "sched": {"base", "cache"},
    "spec": {"base", "sched", "kernels"},
    "comm": {"base"},
}
# Headers of cache/ that bookkeeping alone needs (by the start of their name): base only, and all that sched/ may see of cache/.
HOST_ONLY_CACHE = ("block_allocator", "tiered_allocator", "block_table", "prefix_index", "eviction", "kv_slot", "query_span")
# Kernels see where the bytes lie, not who owns them.
OWNING_CACHE = ("block_allocator", "prefix_index", "eviction", "offload")
COMPILER_HEADERS = {"immintrin.h", "cpuid.h", "arm_neon.h"}
CUDA_HEADER = re.compile(r"cu\w+\.h(pp)?|cu\w+/.*|cub/.*|cooperative_groups.*")
UMBRELLAS = {"kvpage/kvpage.hpp", "kvpage/kvpage.cuh"}


def check(tree):
    host_only = host_only_headers(tree)
    for path in tree.sources(("include",)):
        for line, include in cpp_text.includes(tree.text(path)):
            reason = refusal(tree, path, include, host_only)
            if reason:
                yield Violation(path, line, f"{include}: {reason}")
    for path in tree.sources(("examples", "tests", "bench")):
        for line, include in cpp_text.includes(tree.text(path)):
            if re.match(r'"(\.\./|.*/\.\./|kvpage/|include/)', include):
                yield Violation(path, line, f"{include}: the library is included as <kvpage/...>, own files from their root folder")


def host_only_headers(tree):
    """The headers of cache/ that sched/ may include: the named ones and what they reach inside cache/."""
    pending = [p for p in tree.sources(("include",)) if p.split("/")[2] == "cache" and p.split("/")[-1].startswith(HOST_ONLY_CACHE)]
    reached = set()
    while pending:
        path = pending.pop()
        if path in reached or not tree.exists(path):
            continue
        reached.add(path)
        for _, include in cpp_text.includes(tree.text(path)):
            if include.startswith("<kvpage/cache/"):
                pending.append(f"include/{include[1:-1]}")
    return reached


def refusal(tree, path, include, host_only):
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
    return None if path.removeprefix("include/") in UMBRELLAS else layer_refusal(path, name, host_only)


def outside_refusal(path, name):
    if re.fullmatch(r"[a-z_0-9]+", name) or name in COMPILER_HEADERS:
        return None
    if CUDA_HEADER.fullmatch(name):
        return None if path.endswith(".cuh") else "CUDA headers only in .cuh"
    return "the library depends on std alone"


def layer_refusal(path, name, host_only):
    here, there = path.split("/")[2:], name.split("/")[1:]
    if here[0] not in LAYERS:
        return f"{here[0]} is no layer"
    if here[0] == "kernels" and len(here) != 3:
        return "a kernel header lies in kernels/<op>/"
    if path in host_only and there[0] not in ("base", "cache"):
        return "allocator, table, index and eviction include base only"
    if there[0] == here[0]:
        return "an operation never includes another one" if here[0] == "kernels" and here[1] != there[1] else None
    if there[0] not in LAYERS[here[0]]:
        return f"{here[0]} may include {', '.join(sorted(LAYERS[here[0]])) or 'nothing'}"
    if here[0] == "sched" and there[0] == "cache" and f"include/{name}" not in host_only:
        return "sched sees only allocator, table, index and eviction of cache"
    if here[0] == "kernels" and there[0] == "cache" and there[-1].startswith(OWNING_CACHE):
        return "kernels see the views of cache, not its owners"
    if here[0] == "spec" and there[0] == "kernels" and there[1] != "verify_tokens":
        return "spec sees only kernels/verify_tokens"
    return None


def _tree(**files):
    """include/kvpage files by short path; every include of a fixture exists."""
    empty = ["base/a.hpp", "precision/f.hpp", "cache/kv_layout.hpp", "cache/offload.hpp", "cache/block_table.hpp", "kernels/x/cpu.hpp",
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
        "kernels/y/cpu.hpp": "#include <immintrin.h>\n#include <kvpage/cache/kv_layout.hpp>\n#include <kvpage/precision/f.hpp>\n",
        "kernels/y/kernel.cuh": "#include <cuda_runtime.h>\n#include <kvpage/kernels/y/cpu.hpp>\n",
        "sched/t.hpp": "#include <kvpage/cache/block_allocator.hpp>\n#include <kvpage/sched/s.hpp>\n",
        "kvpage.hpp": "#include <kvpage/sched/s.hpp>\n",
        "examples/engine/e.cpp": '#include "engine/e.hpp"\n#include <kvpage/sched/s.hpp>\n',
    }), []),
    _reject("base/b.hpp", "<kvpage/precision/f.hpp>", "base may include nothing"),
    _reject("precision/p.hpp", '"f.hpp"', "the library includes with"),
    _reject("precision/p.hpp", "<nlohmann/json.hpp>", "the library depends on std alone"),
    _reject("precision/p.hpp", "<cuda_fp16.h>", "CUDA headers only in .cuh"),
    _reject("precision/p.hpp", "<kvpage/base/gone.hpp>", "no such header"),
    _reject("precision/p.hpp", "<kvpage/kvpage.hpp>", "the umbrella"),
    _reject("cache/eviction_lru.hpp", "<kvpage/precision/f.hpp>", "allocator, table, index"),
    _reject("cache/kv_view.hpp", "<kvpage/sched/s.hpp>", "cache may include"),
    _reject("kernels/y/cpu.hpp", "<kvpage/kernels/x/cpu.hpp>", "an operation never includes"),
    _reject("kernels/y/cpu.hpp", "<kvpage/kernels/x/kernel.cuh>", "a .hpp never includes"),
    _reject("kernels/y/cpu.hpp", "<kvpage/cache/offload.hpp>", "kernels see the views"),
    _reject("kernels/y.hpp", "<kvpage/base/a.hpp>", "a kernel header lies in"),
    _reject("sched/t.hpp", "<kvpage/kernels/x/cpu.hpp>", "sched may include"),
    _reject("sched/t.hpp", "<kvpage/cache/kv_layout.hpp>", "sched sees only"),
    _reject("spec/v.hpp", "<kvpage/kernels/x/cpu.hpp>", "spec sees only"),
    _reject("misc/m.hpp", "<kvpage/base/a.hpp>", "misc is no layer"),
    _reject("examples/engine/e.cpp", '"kvpage/base/a.hpp"', "the library is included as"),
    _reject("tests/a/a_test.cpp", '"../support/catch.hpp"', "the library is included as"),
]
