#!/usr/bin/env python3
"""What Jinja2 makes of every *.jinja in a folder over a matrix of chats: published_templates.py FOLDER

Output as that of template_fuzzer.py. fetch_templates.py fills such a folder.
"""
import itertools
import json
import pathlib
import sys

import jinja_oracle

DEEP = {"list": [1, "two", None, True], "empty": {}}
ARGUMENTS = {"city": "Zürich <b>", "days": 3, "ratio": 0.5, "deep": DEEP, "id": 12345678901234567890123}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Tells the weather & more",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "A \"city\""},
                    "days": {"type": "integer", "enum": [1, 2, 3], "default": 1},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "at": {"type": "object", "properties": {"lat": {"type": ["number", "null"]}}, "required": ["lat"]},
                    "any": {"anyOf": [{"type": "string"}, {"type": "number"}], "nullable": True},
                },
                "required": ["city"],
            },
            "return": {"type": "object"},
        },
    },
    {"type": "function", "function": {"name": "clock", "description": "", "parameters": {"type": "object", "properties": {}}}},
]
DOCUMENTS = [{"title": "T1", "text": "Body é", "doc_id": 1, "content": "Body é"}, {"title": "T2", "text": "", "doc_id": 2, "content": ""}]


def call(arguments, index=0):
    function = {"name": "get_weather", "arguments": arguments}
    return {"id": f"call0000{index}", "type": "function", "function": function}


def parts(text):
    return [{"type": "text", "text": text}]


def chats():
    """(name, messages)"""
    system, user = {"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Hi <|im_end|> «é» 🙂\n"}
    answer = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello!"}
    thought = {"role": "assistant", "content": "Sure", "reasoning_content": "I think", "thinking": "I think", "reasoning": "I think"}
    more = {"role": "user", "content": "And?"}
    yield "one turn", [user]
    yield "system", [system, user]
    yield "turns", [system, user, answer, more]
    yield "no system", [user, answer, more, answer, user]
    yield "ends with an answer", [user, answer]
    yield "thoughts", [user, thought, more]
    yield "parts", [*({"role": role, "content": parts(role)} for role in ("system", "user", "assistant")), more]
    images = [{"type": "image", "image": "x.png"}, {"type": "image_url", "image_url": {"url": "y"}}]
    yield "image", [{"role": "user", "content": [*parts("See"), *images]}]
    yield "developer", [{"role": "developer", "content": "D"}, user]
    yield "empty", [{"role": "system", "content": ""}, {"role": "user", "content": ""}]
    yield "two users", [user, more]
    yield "nothing", []
    for name, arguments in (("map", ARGUMENTS), ("text", json.dumps(ARGUMENTS)), ("empty", {})):
        for content in ("", None, "Let me see"):
            calls = {"role": "assistant", "content": content, "tool_calls": [call(arguments)]}
            result = {"role": "tool", "name": "get_weather", "tool_call_id": "call00000", "content": "{\"t\": 20}"}
            yield f"call with {name}, {content!r}", [system, user, calls, result]
            yield f"call with {name}, {content!r}, answered", [user, calls, result, answer, more]
    two = {"role": "assistant", "content": "", "tool_calls": [call({"city": "a"}), call({"city": "b"}, 1)]}
    results = [{"role": "tool", "name": "get_weather", "tool_call_id": f"call0000{i}", "content": f"r{i}"} for i in range(2)]
    yield "two calls", [user, two, *results, more]
    yield "bare call", [user, {"role": "assistant", "content": None, "tool_calls": [{"name": "clock", "arguments": {}}]}, results[0]]


def settings():
    for prompt, tools in itertools.product((True, False), (None, TOOLS)):
        yield {"add_generation_prompt": prompt, "tools": tools}
    yield {"add_generation_prompt": True, "tools": None, "enable_thinking": False, "thinking": False}
    yield {"add_generation_prompt": True, "tools": TOOLS, "enable_thinking": True, "thinking": True, "reasoning_effort": "low"}
    yield {"add_generation_prompt": True, "tools": None, "documents": DOCUMENTS, "date_string": "1 Jan 2025"}


def main():
    environment = jinja_oracle.make_environment()
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        for (name, messages), chosen in itertools.product(chats(), settings()):
            inputs = {"documents": None, "bos_token": "<s>", "eos_token": "</s>", **chosen, "messages": messages}
            answer = jinja_oracle.answer(environment, source, inputs)
            sys.stdout.write(json.dumps({"name": f"{path.name}, {name}", "template": source, "inputs": inputs, **answer}) + "\n")


if __name__ == "__main__":
    main()
