"""Disassembles a program: the tiles of every packed format use their instruction set's dot, no wider register occurs outside its
namespace, and the loops of the tiles that are named below keep everything in registers.

usage: isa_regions.py PROGRAM SHAPES | --self-test

SHAPES is the program that prints every packed format with its shape (panel_shapes.cpp).
"""

import json
import re
import subprocess
import sys

FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
NAMESPACE = re.compile(r"kvpage::\w+::(generic|avx2|avxvnni|avx512vnni)::")
# A tile, or the function that chooses it, where the compiler may have put it.
CODE_TILE = re.compile(r"::(?:code|panel)_tile<\w+(?:::\w+)*::PanelShape\{(.*)\}, (\d+)")
PLAIN_TILE = re.compile(r"::(?:float|plain)_tile<\(\w+(?:::\w+)*::PlainElement\)(\d+), (\d+)")
# Instruction set -> (its byte dot, the register of the dot); tiles of plain floats want the register's multiply-add.
DOTS = {"avx2": ("vpmaddubsw", "%ymm"), "avxvnni": ("vpdpbusd", "%ymm"), "avx512vnni": ("vpdpbusd", "%zmm")}
PLAIN_DOT = "vfmadd"
WIDE = {"%zmm": {"avx512vnni"}, "%ymm": {"avx2", "avxvnni", "avx512vnni"}}
# Formats whose largest avx512vnni tile must not touch the stack in its loop. Tiles with super scales need more registers than exist.
NO_STACK = ("Q4_0", "Q4_1", "Q5_0", "Q8_0")
NO_STACK_TILE = ("avx512vnni", 6)
STACK = re.compile(r"\(%(?:rsp|rbp)[,)]")
JUMP = re.compile(r"^\s*([0-9a-f]+):\s+j\w+\s+([0-9a-f]+)\b")


def numbers(text):
    """Numbers of a demangled PanelShape, without the zeros at its end, which compilers may leave out."""
    text = re.sub(r"std::array<[^>]*>|unsigned char \[\d+\]|\([^()]*\)", "", text)
    found = [int({"true": 1, "false": 0}.get(token, token)) for token in re.findall(r"\d+|true|false", text)]
    return trimmed(found)


def trimmed(found):
    found = list(found)
    while found and found[-1] == 0:
        found.pop()
    return ("shape", *found)


def tile_of(function):
    """(what the tile is made for, its rows) of a tile's demangled name, or None."""
    if match := CODE_TILE.search(function):
        return numbers(match[1]), int(match[2])
    if match := PLAIN_TILE.search(function):
        return ("element", int(match[1])), int(match[2])
    return None


def formats_of(lines):
    """Name of each packed format -> what its tile is made for."""
    found = {}
    for line in filter(None, lines):
        entry = json.loads(line)
        found[entry["format"]] = trimmed(entry["shape"]) if "shape" in entry else ("element", *entry["element"])
    return found


def innermost_loop(lines, dot):
    """The instructions of the shortest loop that has eight dots or more."""
    addresses = [line.split(":")[0].strip() for line in lines]
    best = None
    for end, line in enumerate(lines):
        jump = JUMP.match(line)
        if jump is None or jump[2] not in addresses[:end]:
            continue
        body = lines[addresses.index(jump[2]) : end + 1]
        if sum(dot in instruction for instruction in body) >= 8 and (best is None or len(body) < len(best)):
            best = body
    return best


def stack_faults(formats, tiles):
    found = []
    for name in NO_STACK:
        path, rows = NO_STACK_TILE
        body = innermost_loop(tiles.get((path, formats.get(name), rows), []), DOTS[path][0])
        if body is None:
            found.append(f"{name}: no loop in the {path} tile of {rows} rows")
        elif touching := [line for line in body if STACK.search(line)]:
            found.append(f"{name}: {len(touching)} stack accesses in the loop of the {path} tile of {rows} rows, as: {touching[0].strip()}")
    return found


def faults(formats, lines):
    """What is wrong, as texts."""
    found, tiles, function, path, body = [], {}, "", None, []
    for line in lines:
        if header := FUNCTION.match(line):
            function = header[1]
            match = NAMESPACE.search(function)
            path = match[1] if match else None
            tile = tile_of(function) if path in DOTS else None
            body = tiles.setdefault((path, *tile), []) if tile else []
            continue
        body.append(line)
        for register, allowed in WIDE.items():
            # Functions of the C library that are linked in statically bear no namespace of ours and are not ours.
            if register in line and path not in allowed and "kvpage" in function:
                found.append(f"{register} in {function[:120]}")
    for path, (dot, register) in DOTS.items():
        for name, made_for in formats.items():
            wanted = PLAIN_DOT if made_for[0] == "element" else dot
            of_format = {rows: text for (tile_path, shape, rows), text in tiles.items() if (tile_path, shape) == (path, made_for)}
            if not of_format:
                found.append(f"{name}: no {path} tile")
            for rows, text in of_format.items():
                if not any(wanted in line and register in line for line in text):
                    found.append(f"{name}: no {wanted} {register} in the {path} tile of {rows} rows")
    return sorted(set(found + stack_faults(formats, tiles)))


def fixture(path="avx2", body="vpmaddubsw %ymm1,%ymm2,%ymm3", without=None):
    """Formats and a disassembly in which everything is right, but for the tiles of `path`."""
    shapes = {name: [4, index, 32, 32, 0, 0] for index, name in enumerate(NO_STACK, start=1)}
    formats = formats_of([json.dumps({"format": name, "shape": shape}) for name, shape in shapes.items()])
    lines = []
    for isa, (dot, register) in DOTS.items():
        for name, shape in shapes.items():
            if (isa, name) == (path, without):
                continue
            text = f"{shape[0]}, {shape[1]}, 32, 32, (kvpage::v0::PanelScale)0, false"
            lines.append(f"0010 <void kvpage::v0::{isa}::detail::code_tile<kvpage::v0::PanelShape{{{text}}}, 6, 1>(int)>:")
            lines += [f"  {i}: {body if isa == path else f'{dot} {register}1,{register}2,{register}3'}" for i in range(10, 19)]
            lines.append("  20: jne 10 <loop>")
    return formats, lines


def self_test():
    assert not faults(*fixture())
    assert any("no vpmaddubsw" in fault for fault in faults(*fixture(body="vpmaddwd %ymm1,%ymm2,%ymm3")))
    assert any("%zmm in" in fault for fault in faults(*fixture(body="vpmaddubsw %ymm1,%ymm2,%ymm3 %zmm4")))
    assert faults(*fixture(without="Q5_0")) == ["Q5_0: no avx2 tile"]
    formats, lines = fixture()
    assert any("%ymm in" in fault for fault in faults(formats, lines + ["0020 <kvpage::v0::gemm(int)>:", "  20: vaddps %ymm0,%ymm1,%ymm2"]))
    assert any("no vpdpbusd %zmm" in fault for fault in faults(*fixture("avx512vnni", "vpdpbusd %ymm1,%ymm2,%ymm3")))
    assert any("9 stack accesses" in fault for fault in faults(*fixture("avx512vnni", "vpdpbusd 0x40(%rsp),%zmm2,%zmm3")))
    assert any("F16: no avx2 tile" in fault for fault in faults({**formats, "F16": ("element", 0)}, lines))
    assert numbers("4, 1, 32, 32, (kvpage::v0::PanelScale)1, false, true, std::array<unsigned char, 16ul>{unsigned char [16]"
                   "{(unsigned char)12, (unsigned char)0}}") == ("shape", 4, 1, 32, 32, 1, 0, 1, 12)


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    program, shapes = sys.argv[1:]
    formats = formats_of(output_of(shapes))
    found = faults(formats, output_of("objdump", "-d", "-C", "--no-show-raw-insn", program))
    print("\n".join(found) or f"the tiles of {len(formats)} formats have their dots, and no wide register strays")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
