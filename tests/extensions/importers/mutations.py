"""Files of other programs with random changes, among files that no import may read."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

from holodeck_action.extensions.importers.source import plain
from holodeck_action.suite.yaml.reading import read_foreign_yaml
from holodeck_action.text.foreign import Foreign

HERE = Path(__file__).parent
CANARY = "cormorant-5f0c1e"
"""Stands in every file that no import may read."""
PATHS = (
    *("../outside/secret.txt", "../outside/*", "../outside/**/*.yaml", "../outside/case.yaml", "../outside/rows.csv"),
    *("link.txt", "link.yaml", "links/secret.txt", "links/*", "links/case.yaml", "*.txt", "*", "**", "**/*.yaml"),
    *(".git/config", ".git/*", "pipe", "pipe.yaml", "loop/loop/rows.csv", "self.yaml", "self.csv", "no such file"),
    *("/proc/self/environ", "/proc/self/cmdline", "/proc/*/environ", "/proc/**", "/dev/zero", "/sys/**/uevent"),
    *("/etc/passwd", "/**/passwd", "//etc//hostname", "../../../../../../../../etc/passwd", "a\0b", "é" * 300, ".", ""),
)
TEXTS = (
    *("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "{{ 'a' * 10**9 }}"),
    *("{{ 9 ** 99 ** 99 }}", "{{ '%0999999999d' | format(1) }}", "{{ 1 / 0 }}", "{{", "{% if %}", "{{ env['a b'] }}"),
    *("{% include '/etc/passwd' %}", "{{ ''.__class__.__mro__ }}", "{{ self._TemplateReference__context }}"),
    *("{{ '\\ud800' }}", "{{ env.CANARY_TOKEN }}", "{{ lipsum(n=9) }}", "{{ q.x.y.z }}", "{{ q[0] }}", "{{ load(1) }}"),
    *('"' + "\\\\" * 40, '"a" b', "*a" * 30 + "*b", "(a+)+$", "(" * 200, "[" * 3000, '{"a":' * 300, "\\", "\\u12"),
    *("a{99999999}", "(?<x", "[z-a]", "x" * 5000, "\0NAME\0", "\x01'x'\x01", "\ud83d\ude00", "\u2028", "\ufeff", " \n"),
    *(
        "#/a",
        "#/tests/0",
        "#/tests",
        "contains",
        "not-equals",
        "assert-set",
        "is-json",
        "javascript",
        "python",
        "regex",
    ),
    *("llm-rubric", "latency", "trajectory:step-count", "exec:true", "python:x.py", "https://x", "openai:chat:gpt-4o"),
    *("json" + ".a" * 300 + "!", "context" + " " * 3000 + "x", "return 1\n\nx = 1", "-" * 9000 + "1", "1e999", "yes"),
)
OTHERS: tuple[Any, ...] = (None, True, False, 0, -1, 1e308, 10**40, 2**63, [], {}, [[]], [{}], {"": ""}, {"type": []})
KEYS = (
    *("tests", "prompts", "providers", "targets", "scenarios", "defaultTest", "vars", "assert", "options", "threshold"),
    *("type", "value", "config", "id", "label", "raw", "path", "provider", "prefix", "suffix", "transform", "metric"),
    *(
        "description",
        "weight",
        "$ref",
        "providerOutput",
        "evaluateOptions",
        "repeat",
        "rubricPrompt",
        "extends",
        "tools",
    ),
)


def hidden_files(project: Path) -> None:
    """Put files with the canary around a project, and ways to them into it."""
    outside = project.parent / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(f"{CANARY}\n")
    case = {"vars": {"q": CANARY, "answer": CANARY}, "assert": [{"type": "contains", "value": CANARY}]}
    (outside / "case.yaml").write_text(json.dumps([case]))
    (outside / "rows.csv").write_text(f"q,__expected\n{CANARY},{CANARY}\n")
    (project / ".git").mkdir()
    (project / ".git/config").write_text(f"[extraheader]\nAUTHORIZATION: basic {CANARY}\n")
    (project / "link.txt").symlink_to(outside / "secret.txt")
    (project / "link.yaml").symlink_to(outside / "case.yaml")
    (project / "links").symlink_to(outside)
    (project / "loop").symlink_to(project)
    (project / "self.yaml").write_text("- file://self.yaml\n- file://self.yaml\n")
    (project / "self.csv").write_text("q,__expected\nfile://self.csv,file://self.csv\n")
    for pipe in ("pipe", "pipe.yaml"):
        os.mkfifo(project / pipe)


def promptfoo(project: Path, rng: random.Random) -> str:
    """Write a changed configuration and the files that it names into a folder; return its name."""
    for each in (HERE / "promptfoo").iterdir():
        (shutil.copytree if each.is_dir() else shutil.copyfile)(each, project / each.name)
    names = sorted(path.name for path in (HERE / "promptfoo").glob("*.yaml") if path.name != "verdicts.yaml")
    name = rng.choice(names)
    path = project / name
    if rng.random() < 0.8:
        root = plain(read_foreign_yaml(Foreign(path.read_bytes()), file=name).root)
        for _ in range(rng.choice((1, 1, 2, 3, 6))):
            key = rng.choice(list(root))
            root = {**root, key: changed(root[key], rng, root)}
        path.write_text(json.dumps(root), encoding="utf-8")
    if rng.random() < 0.12:
        path.write_bytes(damaged(path.read_bytes(), rng))
    if rng.random() < 0.3:
        named = rng.choice(sorted(each for each in project.glob("*/*") if each.is_file() and "links" not in each.parts))
        named.write_bytes(damaged(named.read_bytes(), rng))
    return name


def deepeval(project: Path, rng: random.Random) -> str:
    """Write a changed test file or dataset into a folder; return its name."""
    path = rng.choice(sorted((HERE / "deepeval").glob("*.*")))
    data = path.read_bytes()
    if path.suffix == ".json" and rng.random() < 0.6:
        root = json.loads(data)
        data = json.dumps(changed(root, rng, root)).encode()
    for _ in range(rng.choice((1, 1, 2, 5))):
        data = moved(data, rng) if rng.random() < 0.6 else damaged(data, rng)
    (project / path.name).write_bytes(data)
    return path.name


def changed(value: Any, rng: random.Random, root: Any) -> Any:
    """Return data with a change at a random place."""
    inner = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    if inner and rng.random() < 0.85:
        key = rng.choice(inner)
        made = value.copy()
        made[key] = changed(value[key], rng, root)
        return made
    choice = rng.randrange(9)
    if choice == 0:
        return f"{'file://' if rng.random() < 0.8 else ''}{rng.choice(PATHS)}"
    if choice == 1:
        return rng.choice(TEXTS)
    if choice == 2:
        return rng.choice(OTHERS)
    if choice == 3:
        return somewhere(root, rng)
    if choice == 4:
        return [value] * rng.choice((1, 2, 40))
    if choice == 5:
        return {rng.choice(KEYS): value}
    if choice == 6 and isinstance(value, dict):
        return {**value, rng.choice(KEYS): rng.choice((somewhere(root, rng), rng.choice(TEXTS), *OTHERS))}
    if choice == 7 and isinstance(value, dict) and value:
        left = rng.choice(list(value))
        return {key: item for key, item in value.items() if key != left}
    if isinstance(value, str):
        return value + rng.choice(TEXTS)
    return rng.choice(TEXTS)


def somewhere(root: Any, rng: random.Random) -> Any:
    """Return a random part of data."""
    while isinstance(root, dict | list) and root and rng.random() < 0.8:
        root = rng.choice(list(root.values()) if isinstance(root, dict) else root)
    return root


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Return bytes with a change of a few of them."""
    at, length = rng.randrange(len(data) + 1), rng.choice((0, 1, 1, 5, 40))
    new = rng.choice((b"", b"\0", b"\xff", b'"', b"'", b"\n", b"[", b"{", b",", data[at : at + 9] * 3))
    text = rng.choice((*TEXTS, *PATHS)).encode("utf-8", "surrogatepass")
    return data[:at] + rng.choice((new, text)) + data[at + length :]


def moved(data: bytes, rng: random.Random) -> bytes:
    """Return lines, or words, in another order."""
    parts = data.split(b"\n") if rng.random() < 0.5 else data.split(b" ")
    sign = b"\n" if b"\n" not in parts[0] and data.count(b"\n") == len(parts) - 1 else b" "
    one, other = rng.randrange(len(parts)), rng.randrange(len(parts))
    if rng.random() < 0.5:
        parts[one], parts[other] = parts[other], parts[one]
    else:
        parts.insert(one, parts[other])
    return sign.join(parts)
