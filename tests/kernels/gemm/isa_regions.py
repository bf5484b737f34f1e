"""Disassembles a program: every packed tile uses its instruction set's byte dot, and no wider register occurs outside its namespace.

usage: isa_regions.py PROGRAM | --self-test
"""

import re
import subprocess
import sys

FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
NAMESPACE = re.compile(r"kvpage::\w+::(generic|avx2|avxvnni|avx512vnni)::")
# Instruction set -> (its byte dot, the register of the dot).
DOTS = {"avx2": ("vpmaddubsw", "%ymm"), "avxvnni": ("vpdpbusd", "%ymm"), "avx512vnni": ("vpdpbusd", "%zmm")}
WIDE = {"%zmm": {"avx512vnni"}, "%ymm": {"avx2", "avxvnni", "avx512vnni"}}
MIN_SHAPES = 14  # distinct shapes of the shipped formats


def faults(lines):
    """What is wrong, as texts."""
    found, function, path = [], "", None
    tiles = {}  # name of a tile -> whether its dot was seen
    for line in lines:
        header = FUNCTION.match(line)
        if header:
            function = header[1]
            match = NAMESPACE.search(function)
            path = match[1] if match else None
            if path in DOTS and "::code_tile<" in function:
                tiles.setdefault((path, function), False)
            continue
        for register, allowed in WIDE.items():
            # Functions of the C library that are linked in statically bear no namespace of ours and are not ours.
            if register in line and path not in allowed and "kvpage" in function:
                found.append(f"{register} in {function[:120]}")
        if (path, function) in tiles and DOTS[path][0] in line and DOTS[path][1] in line:
            tiles[path, function] = True
    found += [f"no {DOTS[path][0]} {DOTS[path][1]} in {name[:120]}" for (path, name), seen in tiles.items() if not seen]
    for path in DOTS:
        shapes = {re.search(r"PanelShape\{(.*?)\}, \d", name)[1] for (tile_path, name) in tiles if tile_path == path}
        if len(shapes) < MIN_SHAPES:
            found.append(f"{path}: {len(shapes)} shapes have tiles, at least {MIN_SHAPES} were expected")
    return sorted(set(found))


def fixture(path="avx2", body="vpmaddubsw %ymm1,%ymm2,%ymm3", shapes=MIN_SHAPES):
    """A disassembly in which everything is right, but for the tiles of `path`."""
    lines = []
    for name, (dot, register) in DOTS.items():
        for shape in range(shapes if name == path else MIN_SHAPES):
            lines.append(f"0010 <void kvpage::v0::{name}::detail::code_tile<kvpage::v0::PanelShape{{{shape}}}, 1, 1>(int)>:")
            lines.append(f"  10: {body if name == path else f'{dot} {register}1,{register}2,{register}3'}")
    return lines


def self_test():
    assert not faults(fixture())
    assert any("no vpmaddubsw" in fault for fault in faults(fixture(body="vpmaddwd %ymm1,%ymm2,%ymm3")))
    assert any("%zmm in" in fault for fault in faults(fixture(body="vpmaddubsw %ymm1,%ymm2,%ymm3 %zmm4")))
    assert any("shapes have tiles" in fault for fault in faults(fixture(shapes=3)))
    assert any("%ymm in" in fault for fault in faults(fixture() + ["0020 <kvpage::v0::gemm(int)>:", "  20: vaddps %ymm0,%ymm1,%ymm2"]))
    assert any("no vpdpbusd %zmm" in fault for fault in faults(fixture("avx512vnni", "vpdpbusd %ymm1,%ymm2,%ymm3")))


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    done = subprocess.run(["objdump", "-d", "-C", "--no-show-raw-insn", sys.argv[1]], capture_output=True, text=True, check=True)
    found = faults(done.stdout.splitlines())
    print("\n".join(found) or "every tile has its dot, and no wide register strays")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
