#!/usr/bin/env python3
"""Random templates over the grammar of Jinja and what Jinja2 makes of them: template_fuzzer.py SEED COUNT

One JSON object per line: {"template", "inputs"} and "rendered" or "error", as jinja_oracle.py answers.
"""
import json
import random
import re
import sys

import jinja_oracle

INPUTS = {
    "s": "Hello World", "u": "Straße ΟΔΟΣ Ế İx ﬁn ǆa Ідея 🙂", "h": "<b> & 'q' \"d\"", "p": "  a-b_c, d\te\nf  ", "e": "", "d": "42",
    "x": "0x1F", "i": 7, "z": 0, "k": -13, "big": 123456789012345678901234567890, "f": 2.5, "g": -0.125, "n": None, "t": True,
    "no": False, "l": [3, 1, 2, 10], "w": ["b", "A", "c", "a"], "o": [], "mix": [1, "1", None, 2.5, True, [1]], "q": {},
    "m": {"k": "v", "n": 1, "in": {"x": [1, {"y": "z"}]}, "é": None},
    "rows": [{"name": "x", "n": 3, "flag": True}, {"name": "Y", "n": 1}, {"name": "y", "n": 2, "flag": False}],
    "tree": [{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": [{"v": 4, "c": []}]}]}],
}

# $name stands for a production of that name; a name in LEAVES has those alone when the depth is used up.
WORDS = {
    "case": "upper lower title capitalize",
    "slice": "0 -1 1: :-1 ::-1 1:4:2 20 -3:",
    "small": "0 1 2 3",
    "arith": "+ - * / // %",
    "order": "< <= > >= ==",
    "is": "string number integer float boolean none mapping sequence iterable defined undefined callable escaped true false",
    "asks": "isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper",
    "conv": "d d i x X o e f g G s r u c",
    "flag": "5 -5 05 + # .2 8.3 -08 012.4 .0",
    "fmt": ":d :5d :+d :x :#x :b :#o :, :_ :08, :.2f :e :g :% :10.3f :c :<+6 :=+7 :.1e :n :.0f :#.3g :06.1f :_x :.3 ::>4",
    "sfmt": "!r !s !a :>8 :*^9 :<5 :05 :.2 !r:8.3",
    "v": "v1 v2 _v3 v4",
    "loopattr": "index index0 first last length revindex revindex0 previtem nextitem depth depth0 cycle('a',2) changed(z)",
}
LEAVES = {
    "T": "s u h p e d x 'a' '<|x|>' \"it's\" 'é\\n' m.k rows[0].name '0b11' ' 7 ' '1_0' v1 v4 (dict(**m)|join)",
    "N": "i z k f g big 0 1 2 -3 1.5 1e20 0x1f 0b101 1_000 9223372036854775807 t m.n rows[1].n",
    "B": "true false t no n i>3",
    "L": "l w o [1,2] (1,'a') ['x',none,1.5] [[1],{'a':1}] m['in'].x range(3)|list () mix",
    "D": "m q {} {'a':1} {1:'x',true:'y','z':2} rows[0] {none:1,(1,2):'k',2.5:3} {2:'b',1:'a'} dict(a=1,**rows[0])",
    "A": "$T $T $N $N $B $L $D missing m.zz none",
}
GROWN = {
    "T": r"""
($T ~ $A)
($T + $T)
($T * $small)
$T[$slice]
($T)|$case
($T).$case()
($T)|string
($T)|e
($T)|safe
($T)|forceescape
($T)|urlencode
($T)|trim
($T)|center(12)
($T)|indent
($T)|indent(2, true)
($T)|indent(width=3, blank=true)
($T)|replace('l', 'ZZ')
($T)|replace(' ', '', 1)
($T)|truncate(7)
($T)|truncate(6, true)
($T)|truncate(9, false, '..', 0)
($T).casefold()
($T).swapcase()
($T).expandtabs($small)
($T).strip('Ha ')
($T).rstrip('\nd')
($T).ljust(9, '.')
($T).rjust(12)
($T).center($N)
($T).zfill(8)
($T).removeprefix('H')
($T).removesuffix('d')
($T).replace($T, $T)
($T).join($L|map('string'))
($L)|join(',')
($L)|join
($A)|tojson
($A)|tojson(indent=2)
($A)|tojson(true)
($A)|tojson(sort_keys=true)
($A)|tojson(separators=(',', ':'))
($A)|tojson(false, 1)
($A)|string
'{$sfmt}|{$fmt}|{q$sfmt}'.format($A, $N, q=$T)
'{1$fmt}{0}'.format($A, $N)
'{0:{1}}{{}}'.format($N, $small)
('%$flag$conv' % $N)
('%$conv|%$flagr' % ($N, $A))
'%$flag$conv|%$conv'|format($N, $N)
'%(a)s %(b)5d'|format(a=$A, b=$N)
($T if $B else $T)
($A)|default($T)
($A)|default($T, true)
($N)|filesizeformat
""",
    "N": r"""
($N $arith $N)
($N $arith $N)
($N ** $small)
($N ** -1)
(-$N)
($N)|abs
($N)|int
($N)|float
($N)|round
($N)|round(-1)
($N)|round(2, 'ceil')
($N)|round(method='floor')
($T)|int
($T)|int(0, 16)
($T)|int(base=0)
($T)|float
($T)|length
($T)|wordcount
($T).find('l', 2)
($T).rfind('a')
($T).count('')
($T).count('l', 1, -1)
($L)|length
($L)|sum
($L)|max
($L)|min
rows|sum(attribute='n')
($L).count($A)
""",
    "B": r"""
($A == $A)
($A != $A)
($N $order $N)
($N < $N <= $N)
($T in $T)
($A in $L)
($A not in $D)
(not $B)
($B and $A)
($A or $B)
($A is $is)
($A is not $is)
($N is odd)
($N is divisibleby 3)
($N is in [1, 2])
($N is gt 1)
($T is upper)
($T is filter)
($T).$asks()
($T).startswith('H')
($T).endswith(('a', 'd'), 1)
(loop is defined)
""",
    "L": r"""
[$A, $A]
($A, $N)
($L + $L)
($L)[$slice:]
($L)|sort
($L)|sort(case_sensitive=true)
($L)|unique|list
($L)|reverse|list
($L)|list
($L)|batch(2)|list
($L)|batch(3, 0)|list
($L)|slice(2)|list
($L)|slice(3, 'x')|list
($L)|map('string')|list
($L)|map('upper')|list
($L)|map('tojson')|list
($L)|map('default', 1)|list
($L)|map('nope')|list
($L)|select('string')|list
($L)|reject('number')|list
($L)|select('in', w)|list
rows|selectattr('flag')|map(attribute='name')|list
rows|rejectattr('n', 'ge', 2)|list
rows|sort(attribute='n')
rows|sort(attribute='name,n')
rows|sort(false, true, 'name')
rows|map(attribute='flag', default=0)|list
rows|groupby('name')
rows|groupby('flag', default='no')
rows|unique(attribute='name')|list
($T).split()
($T).split('l')
($T).rsplit(none, 1)
($T).splitlines(true)
($T).partition(' ')
($T).rpartition('l')
($D).keys()|list
($D).values()|list
($D).items()|list
($D)|dictsort
($D)|dictsort(by='value')
($D)|dictsort(true, reverse=true)
($D)|items|list
($T)|list
""",
    "D": r"""
{$T: $A, 'k': $A}
{$A: $A}
dict($D, a=$A)
dict([['a', $A]])
dict(**$D)
($D).copy()
""",
    "A": r"""
$T
$N
$B
$L
$D
($D).get($A, $A)
($D)[$A]
($L)[$small]
($L)|first
($L)|last
($A)|default($A)
($A)|attr($T)
""",
    "S": r"""
{%$s if $B $e%}$C{%$s elif $A $e%}$C{%$s else $e%}$C{%$s endif $e%}
{%$s if $A $e%}$C{%$s endif $e%}
{%$s for _i in $L $e%}$C{{ loop.$loopattr }}{%$s else $e%}$C{%$s endfor $e%}
{%$s for a, b in ($D).items() $e%}{{ a }}{{ b }}$C{%$s endfor $e%}
{%$s for a in $D if $B $e%}$C{{ loop.$loopattr }}{{ a }}{%$s endfor $e%}
{%$s for c in $T $e%}{% if loop.index > 2 %}{% break %}{% elif c == 'e' %}{% continue %}{% endif %}{{ c }}{%$s endfor $e%}
{%$s for a, (b, c) in [(1, (2, 3)), [4, 'xy']] $e%}{{ a ~ b ~ c }}$C{%$s endfor $e%}
{%$s set $v = $A $e%}{{ v1 }}
{%$s set $v = $A $e%}$C{{ v4 }}
{%$s set v1, v2 = $A, $A $e%}{{ v2 }}
{%$s set v1 $e%}$C{%$s set v2 = 5 $e%}{% endset %}{{ v1 }}{{ v2 }}
{%$s set v2|upper|length $e%}$C{% endset %}{{ v2 }}
{%$s with v1 = $A, v2 = v1 $e%}$C{{ v2 }}{%$s endwith $e%}{{ v2 is defined }}
{%$s filter upper $e%}$C{%$s endfilter $e%}
{%$s filter replace('a', 'b')|trim $e%}$C{% set v1 = 3 %}{%$s endfilter $e%}
{%$s macro f1(a, b=$A, c=a) $e%}$C{{ a }}{{ b }}{{ c }}{%$s endmacro $e%}{{ f1($A) }}{{ f1(1, c=$A) }}
{%$s macro f1(a, b=2) $e%}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{%$s endmacro $e%}{{ f1(1, 2, $A, z=$A) }}{{ f1(*$L) }}{{ f1(**$D) }}
{%$s macro f1(a) $e%}{{ a }}{{ v1 }}{{ caller is defined }}{%$s endmacro $e%}{% set v1 = $A %}{{ f1(b=$A) }}
{%$s macro f2(a) $e%}{{ a }}{% if a > 0 %}{{ f2(a - 1) }}{% endif %}{%$s endmacro $e%}{{ f2(3) }}{{ f2($N) }}
{%$s macro f3(t) $e%}<{{ t }}>{{ caller() }}{%$s endmacro $e%}{%$s call f3($A) $e%}$C{%$s endcall $e%}
{% macro f3(t) %}{% for r in t %}{{ caller(r, 2) }}{% endfor %}{% endmacro %}{%$s call(r, b=1) f3($L) $e%}{{ r }}{{ b }}$C{% endcall %}
{% set ns = namespace(c=$N, d=$A) %}{% for _ in $L %}{% set ns.c = ns.c + loop.index %}{% endfor %}{{ ns.c }}{{ ns.zz }}{{ ns.d }}
{% for r in tree recursive %}[{{ r.v }}:{{ loop.depth }}{{ loop(r.c) }}{{ loop(r.c)|length }}]{% endfor %}
{%$s generation $e%}{% set $v = 3 %}$C{%$s endgeneration $e%}{{ v1 }}
{% set cy = cycler('a', $A) %}{% set jo = joiner('; ') %}{% for r in w %}{{ jo() }}{{ r }}{{ cy.next() }}{{ cy.current }}{% endfor %}
{%$s block b$C $e%}{%$s endblock $e%}
{%$s raw $e%} {{ r }} {%$s endraw $e%}{{ namespace(**$D).k }}
{% set v9 = $L|map('string') %}{{ v9|first }}{{ v9|list }}{{ v9|list }}
{{$m $A $m}}
{{$m $A $m}}
""",
}
DATA = ["", " ", "\n", "x", "  \n", "a\n  ", "\n\n", "<|y|>", "\t", " b ", "{# c #}", "{#- c -#}", "\r\n"]
WORDS = {name: words.split() for name, words in WORDS.items()}
LEAVES = {name: words.split() for name, words in LEAVES.items()}
GROWN = {name: lines.strip().split("\n") for name, lines in GROWN.items()}
NAMES = re.compile(r"\$(" + "|".join(sorted([*WORDS, *GROWN, "C", "s", "e", "m"], key=len, reverse=True)) + ")")


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def grow(self, name, levels):
        if name in WORDS:
            return self.random.choice(WORDS[name]) if self.random.random() < 0.8 or name not in ("flag", "sfmt", "fmt") else ""
        if name in "sem":
            return self.random.choice(["", "", "-", "" if name == "m" else "+"])
        if name == "C":
            return self.block(levels)
        leaf = name in LEAVES and (levels <= 0 or self.random.random() < 0.25)
        pattern = self.random.choice(LEAVES[name] if leaf else GROWN[name])
        return NAMES.sub(lambda match: self.grow(match[1], levels - 1), pattern)

    def block(self, levels):
        parts = [self.random.choice(DATA)]
        for _ in range(self.random.randrange(0, 3) if levels < 3 else 3):
            inner = self.grow("S", levels - 1) if levels > 0 else "{{ " + self.grow("A", 0) + " }}"
            parts += [inner, self.random.choice(DATA)]
        return "".join(parts)


def main():
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    environment = jinja_oracle.make_environment()
    for i in range(count):
        generator = Generator(seed * 1_000_003 + i)
        source = generator.block(3) if i % 2 else "{{ " + generator.grow("A", 4) + " }}"
        answer = jinja_oracle.answer(environment, source, INPUTS)
        if " at 0x" not in answer.get("rendered", ""):  # addresses of objects are nobody's answer
            sys.stdout.write(json.dumps({"template": source, "inputs": INPUTS, **answer}) + "\n")


if __name__ == "__main__":
    main()
