"""Files, lines and functions stay small enough to read in one sitting. There is no exemption list."""

import cpp_text
from lint import Violation

NAME = "size_budgets"
MAX_FILE_LINES = 500
MAX_LINE_COLUMNS = 140
MAX_FUNCTION_LINES = 60
MAX_KERNEL_LINES = 100  # a numeric kernel: any function inside include/kvpage/kernels
TEXT_SUFFIXES = {".hpp", ".cuh", ".cpp", ".cu", ".py", ".sh", ".cmake", ".html", ".css", ".js"}


def check(tree):
    for path in tree.files(("include", "examples", "tests", "bench"), TEXT_SUFFIXES):
        text = tree.text(path)
        lines = text.splitlines()
        if len(lines) > MAX_FILE_LINES:
            yield Violation(path, len(lines), f"{len(lines)} lines, at most {MAX_FILE_LINES}: split the file")
        for number, line in enumerate(lines, start=1):
            if len(line) > MAX_LINE_COLUMNS:
                yield Violation(path, number, f"{len(line)} columns, at most {MAX_LINE_COLUMNS}")
    for path in tree.sources():
        yield from check_functions(path, tree.text(path))


def check_functions(path, text):
    limit = MAX_KERNEL_LINES if path.startswith("include/kvpage/kernels/") else MAX_FUNCTION_LINES
    try:
        bodies = cpp_text.function_bodies(text)
    except ValueError as problem:
        yield Violation(path, 1, f"braces cannot be read: {problem}")
        return
    for body in bodies:
        if body.lines > limit:
            yield Violation(path, body.first_line, f"the body of {body.name} has {body.lines} lines, at most {limit}")


def _body(lines):
    return "".join(f"  x = {i};\n" for i in range(lines))


_OPERATORS = ["bool operator==(const A& o) const", "bool operator<(const A& o) const noexcept", "A& operator<<(int x)",
              "auto operator<=>(const A& o) const", "A* operator->()", "int operator()(int x) const", "int operator[](int i)",
              "explicit operator bool() const", "A operator>>(int x)", "bool operator!() const", "friend A operator-(A a, A b)",
              "A operator\"\" _a(const char* s)", "void* operator new(std::size_t size)", "bool operator >= (const A& o) const"]
_LAMBDAS = [("const auto f = []", ""), ("inline constexpr auto f = [] () constexpr", ""), ("int x = [&]", "()"),
            ("auto f = []<class T>(T x) -> std::vector<T>", ""), ("const bool done = add(\"name\", [](int x) noexcept", ")"),
            ("std::function<int(int)> f = [=, y = g(1)](int x) mutable", ""), ("S s{1, [](auto&&... x)", "}"),
            ("static_assert([]() requires(N < 4)", "())"), ("auto f = [a = b[0]](int (&x)[2])", "")]
_NO_FUNCTIONS = ["const int a[] =", "const int a[3]", "static const std::array<int, 2> b", "enum class [[nodiscard]] E : int",
                 "template <class T>\nstruct [[maybe_unused]] B : C<(1 < 2)>"]

FIXTURES = [
    ("everything at its limit", {
        "include/kvpage/kernels/op/cpu.hpp": "template <class T, bool B = (1 > 0)>\nvoid k(T (&x)[2]) noexcept {\n" + _body(100) + "}\n",
        "include/kvpage/base/a.hpp": "struct S {\n  S() : a_{1}, b_(2) {\n" + _body(60) + "  }\n" + _body(80) + "};\n" + "x" * 140 + "\n",
        "tests/a_test.cpp": "// {\n" + "int x;\n" * 499,
        "tests/b_test.cpp": "const char* s = R\"({{)\"; char c = '{'; int n = 1'000;\nTEST_CASE(\"a\", \"[b]\") {\n" + _body(60) + "}\n",
    }, []),
    ("file too long", {"bench/a.cpp": "int x;\n" * 501}, ["bench/a.cpp:501: 501 lines"]),
    ("line too long", {"tests/a.hpp": "\n" + "x" * 141 + "\n"}, ["tests/a.hpp:2: 141 columns"]),
    ("function too long", {
        "examples/a.cpp": "namespace a {\nstruct B final : C<D> {\n  int f(int x) const noexcept override {\n" + _body(61) + "  }\n};\n}\n",
        "examples/b.cpp": "template <class T>\n  requires(sizeof(T) == 4)\nauto g(struct tm* t) -> std::vector<T> {\n" + _body(61) + "}\n",
        "examples/c.cpp": "const auto h = [](int x) {\n" + _body(61) + "};\n",
        "examples/d.cpp": "S::S(int a) : a_{a} {\n" + _body(61) + "}\n",
        "tests/e_test.cpp": "TEST_CASE(\"x {\", \"[y]\") {\n  if (a) {\n" + _body(61) + "  }\n}\n",
    }, ["examples/a.cpp:3: the body of f has 61", "examples/b.cpp:3: the body of", "examples/c.cpp:1: the body of",
        "examples/d.cpp:1: the body of", "tests/e_test.cpp:1: the body of TEST_CASE has 63"]),
    ("operators too long", {
        f"examples/{name}.cpp": f"struct A {{\n  {head} {{\n{_body(61)}  }}\n}};\n"
        for name, head in zip("abcdefghijklmn", _OPERATORS, strict=True)
    }, [f"examples/{name}.cpp:2: the body of " for name in "abcdefghijklmn"]),
    ("lambdas too long", {
        f"examples/{name}.cpp": f"namespace a {{\n{head} {{\n{_body(61)}}}{tail};\n}}\n"
        for name, (head, tail) in zip("abcdefghi", _LAMBDAS, strict=True)
    }, [f"examples/{name}.cpp:2: the body of (lambda) has 61" for name in "abcdefghi"]),
    ("lists and types are no functions", {
        f"examples/{name}.cpp": f"{head} {{\n{_body(61)}}};\n" for name, head in zip("abcde", _NO_FUNCTIONS, strict=True)
    }, []),
    ("kernel too long", {"include/kvpage/kernels/op/cpu.hpp": "void k() {\n" + _body(101) + "}\n"},
     ["include/kvpage/kernels/op/cpu.hpp:1: the body of k has 101 lines, at most 100"]),
    ("unbalanced", {"bench/a.cpp": "void f() {\n"}, ["bench/a.cpp:1: braces cannot be read"]),
]
