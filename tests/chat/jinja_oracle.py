#!/usr/bin/env python3
"""Renders chat templates with Jinja2, configured as model tokenizers configure it (transformers, utils/chat_template_utils.py).

One JSON request per line in, one answer per line out.

Request: {"template": source, "inputs": {...}}; answer: {"rendered": text} or {"error": text}.
"""
import datetime
import json
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

NOW = datetime.datetime(2024, 7, 6, 9, 5, 3)


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks what the model writes; rendered as its body, in a scope of its own."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


class Namespace(jinja2.utils.Namespace):
    """A namespace without attributes whose names start with an underscore, as in chat templates."""

    def __init__(*args, **kwargs):
        self, values = args[0], dict(*args[1:], **kwargs)
        for name in values:
            Namespace.check(name)
        jinja2.utils.Namespace.__init__(self, values)

    def __setitem__(self, name, value):
        Namespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError("a namespace has no attribute " + repr(name))


def make_environment():
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = NOW.strftime
    environment.globals["namespace"] = Namespace
    return environment


def answer(environment, source, inputs, compiled={}):
    try:
        if source not in compiled:
            compiled.clear()
            compiled[source] = environment.from_string(source)
        return {"rendered": compiled[source].render(**inputs)}
    except Exception as error:  # whatever a template provokes is an answer
        return {"error": type(error).__name__ + ": " + str(error)}


def main():
    environment = make_environment()
    for line in sys.stdin:
        request = json.loads(line)
        sys.stdout.write(json.dumps(answer(environment, request["template"], request["inputs"])) + "\n")


if __name__ == "__main__":
    main()
