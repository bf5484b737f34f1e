"""Finds the places of the headers that can be mutated, and writes mutants behind a switch (mutation_switch.hpp).

A place is one comparison, one constant or one operand in a line of code. One build holds many mutants, at most one in a line.
"""

import dataclasses
import hashlib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lint"))
import cpp_text  # noqa: E402  pylint: disable=wrong-import-position

SWITCH = pathlib.Path(__file__).with_name("mutation_switch.hpp")
CHECKS = {"allocator_check.hpp", "prefix_check.hpp"}  # invariants that the tests run
SUBJECTS = {
    "scheduler": ["include/kvpage/sched/*.hpp", "include/kvpage/sched/detail/*.hpp"],
    "allocator": ["include/kvpage/cache/block_*.hpp", "include/kvpage/cache/cache_transaction.hpp", "include/kvpage/cache/eviction_*.hpp",
                  "include/kvpage/cache/prefix_*.hpp", "include/kvpage/cache/offload_tier.hpp", "include/kvpage/cache/detail/*.hpp"],
    "attention": ["include/kvpage/kernels/paged_attention/*.hpp"],
}

# Compile-time text; checks, which compute nothing; memory asked for in advance.
NOT_MUTATED = re.compile(r"\b(static_assert|if constexpr|requires|template|concept|case|using|alignas|operator|"
                         r"KVPAGE_ASSERT\w*|throw|reserve)"
                         r"\b|^\s*#")
CONSTANT_LINE = re.compile(r"^(\s*)(?:static |inline )*constexpr ([\w:]+) (k\w+) = (?=\d)")
# A constant of several lines: the compiler computes it, whatever is written there.
LONG_CONSTANT = re.compile(r"\bconstexpr\b[^()]*\bk[A-Z]\w*\s*(?:=\s*)?\{[^;]*$")
COMPARISON = re.compile(r" (<=|>=|==|!=|<|>) (?=\S)")
OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
SWITCH_TYPE = {"<": "Less", "<=": "LessEqual", ">": "Greater", ">=": "GreaterEqual", "==": "Equal", "!=": "NotEqual"}
NUMBER = re.compile(r"(?<![\w.\"'<\[])\d+(?:\.\d+f)?[uU]?(?![\w.'\">])")
OPERAND = re.compile(r" (?:[-+*/%<>]|<=|>=|==|!=) ((?!nullptr\b|true\b|false\b|kNo[A-Z])[a-z_]\w*(?:\.\w+)*(?:\(\))?)(?=[);, \]])")


@dataclasses.dataclass(frozen=True)
class Place:
    """`ordinal`: which of the equal lines of its file; `part`: which of the line's places. So the key stays when other lines change."""
    subject: str
    path: str
    line: int
    text: str
    ordinal: int
    part: int
    change: str

    @property
    def key(self):
        return _digest(f"{self.path}|{self.text}|{self.ordinal}|{self.part}|{self.change}")

    def __str__(self):
        return f"{self.path}:{self.line}: {self.change} in `{self.text}`"


def _digest(words):
    return hashlib.sha256(words.encode()).hexdigest()[:12]


def edits(line):
    """[(start, end, what changes, the text with the switch, its number as {number})] of a line of code."""
    if NOT_MUTATED.search(line) or ("constexpr" in line and not CONSTANT_LINE.match(line)):
        return []
    found = []
    for match in COMPARISON.finditer(line):
        # a < Less{1} < b is (a < Less{1}) < b: the switch takes a, then compares.
        side = "==" if match[1] in ("==", "!=") else "<"
        found.append((match.start(1), match.end(1), f"{match[1]} becomes {OTHER[match[1]]}",
                      side + " kvpage_mutation::" + SWITCH_TYPE[match[1]] + "{{{number}}} " + side))
    for match in NUMBER.finditer(line):
        found.append((match.start(), match.end(), f"{match[0]} becomes more", f"kvpage_mutation::more<{{number}}>({match[0]})"))
    for match in OPERAND.finditer(line):
        for name in ("more", "less"):
            found.append((match.start(1), match.end(1), f"{match[1]} becomes {name}", f"kvpage_mutation::{name}<{{number}}>({match[1]})"))
    return sorted(found)


def places_of(subject):
    found = []
    paths = {path for pattern in SUBJECTS[subject] for path in ROOT.glob(pattern)}
    for path in sorted(path for path in paths if path.name not in CHECKS):
        seen = {}
        constant = False
        for number, line in code_lines(path):
            ordinal = seen[line.strip()] = seen.get(line.strip(), -1) + 1
            if constant or LONG_CONSTANT.search(line):
                constant = not line.endswith(";")
                continue
            for part, (_, _, change, _) in enumerate(edits(line)):
                found.append(Place(subject, path.relative_to(ROOT).as_posix(), number, line.strip(), ordinal, part, change))
    return found


def code_lines(path):
    """(number, line) of the lines in which no string or inner comment moves the columns."""
    text = path.read_text(encoding="utf-8")
    for number, (raw, code) in enumerate(zip(text.splitlines(), cpp_text.code_only(text).splitlines()), start=1):
        if raw.startswith(code.rstrip()):
            yield number, code.rstrip()


def in_order(places, seed):
    """The places in the order of a seeded draw, at most one of each line."""
    lines = set()
    for place in sorted(places, key=lambda p: _digest(f"{seed}|{p.key}")):
        if (place.path, place.line) not in lines:
            lines.add((place.path, place.line))
            yield place


def write_mutants(copy, numbered):
    """Writes {number: place} into the headers below `copy`; sources are compiled with `-include` of the switch, as bodies of the
    instruction sets stand inside of a namespace."""
    files = {}
    for number, place in numbered.items():
        lines = files.setdefault(place.path, (ROOT / place.path).read_text(encoding="utf-8").splitlines())
        start, end, _, text = edits(cpp_text.code_only(lines[place.line - 1]).rstrip())[place.part]
        line = lines[place.line - 1]
        mutated = line[:start] + text.format(number=number) + line[end:]
        # A constant that a mutant changes is known when the program starts.
        storage = "static inline" if line.startswith(" ") else "inline"
        if match := CONSTANT_LINE.match(line):
            value = mutated[match.end():].replace("::more<", "::more_at_start<")
            mutated = f"{match[1]}{storage} const {match[2]} {match[3]} = {value}"
        lines[place.line - 1] = mutated
    for path, lines in files.items():
        (copy / path).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (copy / "include" / SWITCH.name).write_text(SWITCH.read_text(encoding="utf-8"), encoding="utf-8")
