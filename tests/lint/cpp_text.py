"""Reads C++ source as far as the lints need it: text without comments or strings, and where function bodies begin and end."""

import re
from typing import NamedTuple

TOKEN = re.compile(
    r"""(?P<line_comment>//(?:\\\n|[^\n])*)
      | (?P<block_comment>/\*.*?\*/)
      | (?P<raw_string>R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)")
      | (?P<string>"(?:\\.|[^"\\\n])*")
      | (?P<number>\b\d(?:'?[\w.])*)
      | (?P<character>'(?:\\.|[^'\\\n])+')
    """,
    re.VERBOSE | re.DOTALL,
)


def _newlines(text):
    return "\n" * text.count("\n")


def without_comments(text):
    """The source with comments removed; line numbers stay."""
    def replace(match):
        is_comment = match["line_comment"] is not None or match["block_comment"] is not None
        return " " + _newlines(match[0]) if is_comment else match[0]
    return TOKEN.sub(replace, text)


def code_only(text):
    """The source with comments removed and the content of strings and characters emptied; line numbers stay."""
    def replace(match):
        if match["line_comment"] is not None or match["block_comment"] is not None:
            return " " + _newlines(match[0])
        if match["string"] is not None or match["raw_string"] is not None:
            return '""' + _newlines(match[0])
        return "0" if match["character"] is not None else match[0]
    return TOKEN.sub(replace, text)


def strings(text):
    """[(offset, string with its quotes)] of a source without comments."""
    return [(match.start(), match[0]) for match in TOKEN.finditer(text) if match["string"] is not None or match["raw_string"] is not None]


def includes(text):
    """[(line number, name with its quotes or brackets)] of every #include."""
    found = []
    for number, line in enumerate(without_comments(text).splitlines(), start=1):
        match = re.match(r'\s*#\s*include\s*([<"][^>"]+[>"])', line)
        if match:
            found.append((number, match[1]))
    return found


class Body(NamedTuple):
    """A function body: lines of its braces, and the last words before the opening one."""
    first_line: int
    last_line: int
    name: str

    @property
    def lines(self):
        return max(1, self.last_line - self.first_line - 1)


def _without_groups(text, opening, closing):
    depth, kept = 0, []
    for char in text:
        depth += char == opening
        if depth == 0:
            kept.append(char)
        elif char == closing:
            depth -= 1
            kept.append(f"{opening}{closing}" if depth == 0 else "")
    return "".join(kept)


# operator==, operator<<, operator(), operator->, operator bool, operator"" _x: a name, whatever its characters mean elsewhere.
OPERATOR = re.compile(r"\boperator\s*(\(\s*\)|\[\s*\]|\"\"\s*\w+|[-+*/%^&|~!=<>,]+|(?=\w))")
ATTRIBUTE = re.compile(r"\[\[.*?\]\]", re.DOTALL)
# What may stand between the captures of a lambda and its body; parameters and angle brackets are emptied.
AFTER_CAPTURES = re.compile(r"\s*(<>)?\s*(requires\b[^=;]*)?(\(\))?\s*((mutable|constexpr|consteval|static)\b\s*|noexcept\b\s*(\(\))?\s*)*"
                            r"(->[^=;]*)?(requires\b[^=;]*)?\s*")


def _named_operators(head):
    return OPERATOR.sub("operator_ ", ATTRIBUTE.sub(" ", head))


def _opens_lambda(head):
    """True when the words before a brace end with the captures, parameters and specifiers of a lambda."""
    for start in range(len(head)):
        before = head[:start].rstrip()
        if head[start] != "[" or re.search(r"(\w|\)|\]|>)$", before) and not re.search(r"\b(return|co_return|co_yield)$", before):
            continue  # an index, or the size of an array
        depth = 0
        for end in range(start, len(head)):
            depth += (head[end] == "[") - (head[end] == "]")
            if depth == 0:
                rest = _without_groups(_without_groups(head[end + 1:], "(", ")"), "<", ">")
                if head.count("(", end) == head.count(")", end) and AFTER_CAPTURES.fullmatch(rest):
                    return True
                break
    return False


def _opens_scope(head):
    """True when the words before a brace open a namespace, a type or a list of values instead of a function body."""
    if _opens_lambda(head):
        return False
    if head.count("(") > head.count(")"):
        return True  # an argument
    bare = _without_groups(head, "(", ")")
    bare = re.sub(r"\btemplate\s*<[^{};]*?>\s*(?=\w|\[|$)", " ", _without_groups(bare, "<", ">"))
    if re.search(r"\b(namespace|class|struct|union|enum|extern\s*\"\")\b", bare) and not re.search(r"\)\s*(const|noexcept|->|$)", bare):
        return True
    return head.strip() != "" and "()" not in bare


def _function_name(head):
    if _opens_lambda(head):
        return "(lambda)"
    before = head.split("(")[0].split()
    return before[-1] if before else "(lambda)"


def function_bodies(text):
    """Every outermost function body (lambdas and local types inside count to it). ValueError when braces do not match."""
    code = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", lambda m: _newlines(m[0]), code_only(text), flags=re.MULTILINE)
    bodies, scopes, head, line = [], [], "", 1
    inside = None  # (depth, first line, name) of the function being read
    for char in code:
        if char == "{":
            named = _named_operators(head) if inside is None else ""
            if inside is None and not _opens_scope(named):
                inside = (len(scopes), line, _function_name(named))
            scopes.append(char)
            head = ""
        elif char == "}":
            if not scopes:
                raise ValueError(f"line {line}: closing brace without an opening one")
            scopes.pop()
            if inside is not None and len(scopes) == inside[0]:
                bodies.append(Body(inside[1], line, inside[2]))
                inside = None
            head = ""
        elif char == ";":
            head = ""
        else:
            head += char
        line += char == "\n"
    if scopes:
        raise ValueError("end of file: a brace is not closed (branches of #if must each be balanced)")
    return bodies
