"""Shows that two commits write the same bytes.

    python -m scripts.compare_commits BEFORE AFTER [--only NAME ...] [--keep DIR]

Both commits run as processes on the same input: the examples, HoloDeck's sample suites, the suites of
`compare_commits.yaml` and 500 random suites. The tests' fake servers on loopback take the place of models and GitHub.
The script compares exit codes, both streams, every written file (records, verdicts, reports, cassettes, cards) and the
requests to GitHub. Values that differ between two runs of one commit (times, durations, random ids and ports) are
replaced by a word. Messages that were reworded since (`reworded.tsv`: the old words, a tab, the new words; `{1}` is any
text within a line) are replaced in the output of BEFORE.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import yaml

from scripts.generated_suites import LINES, RUN, generated_suite
from scripts.products import ROOT, Product, extract, install
from tests.commands.project import Project
from tests.github.fake import FakeGitHub
from tests.github.life import whole_life
from tests.llm.models import Answer, FakeModels, Fault, Reply, Request, rules

DATA: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
REWORDED = [
    line.split("\t") for line in Path(__file__).with_name("reworded.tsv").read_text(encoding="utf-8").splitlines()
]
MCP_SERVER = ROOT / "tests" / "agents" / "mcp_servers" / "shop.py"
KEY = "sk-compared-0123456789"
CALLED = re.compile(r"_search$|^find_order$|^add$")
"""Matches tools that the agents call; the results of other tools of the tests' server differ between runs."""
SHOWN_LINES = 12
GENERATED, TOGETHER = 500, 50
"""Number of random suites, and how many of them one process runs."""
COMMANDS = (
    "run -o out --record tape --concurrency 1",
    "run -o again --replay tape --concurrency 1",
    "run --dry-run",
    "validate",
    *(f"report out/results.json --canonical --format {name} -o {name}" for name in ("markdown", "html", "junit")),
    *(f"report out/results.json --canonical --format {name}" for name in ("json", "csv", "console")),
    "decide out/results.json --min-pass-rate 0.5 --min-completeness 0 -o decided",
    "rejudge out/results.json -o rejudged --record tape --concurrency 1",
    "verify out",
)
SHORT = 2
"""Number of these commands to run on a sample suite."""
LIVE = "run --target model --replay cassette -o live --concurrency 1"
"""The command that replays an example's shipped recording."""
DOCUMENTS = ("agent", "policy", "results", "verdict", "report", "judge-card")
WRONG: tuple[Any, ...] = ([], -1, "zzz", None)
"""Wrong values that replace each value of the suites in turn, to compare the messages."""
VOLATILE = (
    # Later than the commits that are compared: the calls of a turn in order of time.
    (r',\s*"steps": ?\[[^\]]*"(?:tool|duration_ms)"[^\]]*\]', ""),
    (r"(?<![0-9a-f])[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])", "ID"),
    (r"(::stop-commands::|ghadelimiter_|^::)[0-9a-f]{32}", r"\1TOKEN"),
    (r'("external_id": "\d+/\d+/)[0-9a-f]{16}', r"\1TOKEN"),
    (r'("results_digest": ?"|^ "digest": "|^.*"duration_ms".*\}, "digest": ")[0-9a-f]{64}', r"\1DIGEST"),
    (
        r'(\bp95_(?:latency|first_token)_ms |"p95_(?:latency|first_token)_ms",\n *"state": "\w+",\n *"actual": )[\d.]+',
        r"\1DURATION",
    ),
    # These follow from the words of a record, which may be reworded.
    (r'("record_digest": ?"|"rejudged": ?"|answers are (?:those of|from) record )[0-9a-f]{12,64}', r"\1DIGEST"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?", "TIME"),
    (r"(chatcmpl-|\bmsg_)\d+", r"\1NUMBER"),
    (r'("(?:\w*(?:duration|model|first_token)_ms|latency_s)": ?)[\d.]+', r"\1DURATION"),
    (r'(\btime=")[\d.]+', r"\1DURATION"),
    (r"\([\d.]+ m?s\)$|(?<= · )[\d.]+ m?s(?= ·|[\"<]|$)|^[\d.]+ s(?= ·|[\"<]|$)", "DURATION"),
    (r"(, )[\d.]+ cases/(?:s|min)", r"\1RATE"),
    (r"('sha256-)[\w+/=]+'", r"\1DIGEST'"),
    (r'(<script type="application/octet-stream"[^>]*>)[\w+/=]+', r"\1PACKED"),
    # In kept verdicts: digests of recorded calls, which include durations.
    (r'("(?:[0-9a-f]{40}|seal)": ?")[0-9a-f]{64}', r"\1DIGEST"),
    (r"(127\.0\.0\.1|localhost):\d+", r"\1:PORT"),
)
"""Patterns of values that differ between two runs of one commit, and their replacements."""
PROGRESS = re.compile(r"(?:^\[\d+/\d+\] .*\n(?:    .*\n)*){2,}", re.MULTILINE)
"""Matches the progress lines on standard error, which are in the order in which cases ended."""
Files = Mapping[str, str]


def answer(request: Request) -> Reply:
    """Answer a model request, depending only on the request: call tools once, and return valid values for a schema."""
    if request.model.endswith("-down"):
        return Fault("unavailable", headers={"x-should-retry": "false"})
    if request.model.endswith("-babbling"):
        return Answer("the answer is great")
    if request.operation == "embeddings":
        return Answer(vectors=tuple((float(len(text) % 7), 1.0, 0.5) for text in request.inputs))
    if any(CALLED.search(name) for name in request.tools) and not request.results:
        calls = [call for call in rules.answer_of(rules.tools_first(request)).tools if CALLED.search(call.name)]
        # The server's own ids would count its requests, and clients send the ids of calls back.
        return Answer(tools=tuple(replace(call, id=f"call_{at}") for at, call in enumerate(calls)))
    seed = int(hashlib.sha256(f"{request.model} {request.text}".encode()).hexdigest()[:8], 16)
    if request.schema:
        return Answer(json.dumps(_value_for_schema(request.schema, request.schema, seed, "text")))
    if '"score"' in request.text or "JSON" in request.text:
        return Answer(json.dumps({"reason": "it is so", "score": 1 + seed % 3, "status": "completed"}))
    return Answer(f"About that: {request.text[:80]}")


def _value_for_schema(schema: Mapping[str, Any], root: Mapping[str, Any], seed: int, name: str) -> Any:
    if "$ref" in schema:
        return _value_for_schema(root["$defs"][schema["$ref"].rpartition("/")[2]], root, seed, name)
    if "anyOf" in schema:
        return _value_for_schema(schema["anyOf"][0], root, seed, name)
    if "enum" in schema or "const" in schema:
        choices = schema.get("enum") or [schema["const"]]
        return choices[seed % len(choices)]
    kind = schema.get("type", "string")
    if kind == "object":
        fields = schema.get("properties", {})
        return {key: _value_for_schema(fields[key], root, seed + at, key) for at, key in enumerate(fields)}
    if kind == "array":
        return [_value_for_schema(schema.get("items", {}), root, seed + at, name) for at in range(2)]
    if kind == "integer":
        return 1 + seed % 3
    return {"number": seed % 101 / 100, "boolean": seed % 2 == 0}.get(
        kind, ("yes", "no", "yes")[seed % 3] if name == "verdict" else f"{name} {seed % 10}"
    )


def mistaken_suites(files: Files) -> Iterator[Files]:
    """Yield a suite with one mistake for every key and every value in its YAML files."""
    for name in files:
        if not name.endswith(".yaml"):
            continue
        document, seen = yaml.safe_load(files[name]), set()
        for place, owner, key in _value_places(document):
            if place in seen:
                continue
            seen.add(place)
            value = owner[key]
            for wrong in WRONG:
                owner[key] = wrong
                yield {**files, name: json.dumps(document, indent=1, default=str)}
            owner[key] = value
            if isinstance(owner, dict):
                owner[f"{key}x"] = owner.pop(key)
                yield {**files, name: json.dumps(document, indent=1, default=str)}
                owner[key] = owner.pop(f"{key}x")


def _value_places(value: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield path, container and key of each value; items of a list share a path if they have the same `type`."""
    if isinstance(value, dict):
        for key in [*value]:
            yield f"{place}.{key}", value, key
            yield from _value_places(value[key], f"{place}.{key}")
    elif isinstance(value, list):
        for at, item in enumerate(value):
            inner = f"{place}[{item.get('type') if isinstance(item, dict) else ''}]"
            yield inner, value, at
            yield from _value_places(item, inner)


def mask_volatile(text: str) -> str:
    """Return a text with values that differ between two runs of one commit replaced."""
    for pattern, replacement in VOLATILE:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return PROGRESS.sub(lambda lines: sort_progress(lines[0]), text)


def reworded(text: str) -> str:
    """Return a text of an earlier commit in the words of this one."""
    for old, new in REWORDED:
        literals, now = (re.split(r"\{\d\}", words) for words in (old, new))
        if all(literal in text for literal in literals):
            left, right = (r"\b" * edge.isalnum() for edge in (old[0], old[-1]))
            # What has the new words already may contain the old ones.
            unlike = f"(?!{'.+?'.join(map(re.escape, now))})"
            pattern = left + unlike + "(.+?)".join(map(re.escape, literals)) + right
            text = re.sub(pattern, re.sub(r"\{(\d)\}", r"\\g<\1>", new.replace("\\", r"\\")), text)
    return text


def sort_progress(progress: str) -> str:
    """Return progress lines sorted and without counts, since cases end in any order."""
    return "".join(sorted(line.partition(" ")[2] for line in progress.splitlines(keepends=True)))


def output_text(ended: subprocess.CompletedProcess[str]) -> str:
    return f"exit code {ended.returncode}\n--- stdout\n{ended.stdout}--- stderr\n{ended.stderr}"


def files_of(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def write(folder: Path, files: Files) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


Job = Callable[[Product, Path], Files]


def run_suite(product: Product, folder: Path, files: Files, commands: tuple[str, ...]) -> Files:
    """Run commands on a suite, one after the other; return their output and every file that they write."""
    write(folder, files)
    said = {
        f"{at:02} {line}".replace("/", "_"): output_text(product.run(folder, *shlex.split(line)))
        for at, line in enumerate(commands)
    }
    return said | {name: text for name, text in files_of(folder).items() if files.get(name) != text}


def validate_mistakes(product: Product, folder: Path, files: Files) -> Files:
    """Validate each variant of a suite with one mistake; return the output."""
    for number, wrong in enumerate(mistaken_suites(files)):
        write(folder / f"{number:04}", wrong)
    return {"validate": output_text(product.run(folder, "validate", "*/agent.yaml"))}


def show_help(product: Product, folder: Path) -> Files:
    """Return the help of every command, and every schema."""
    folder.mkdir(parents=True)
    top = product.run(folder, "--help")
    commands = re.findall(r"^  ([a-z]+) {2,}\S", top.stdout.partition("Commands:")[2].partition("Exit codes")[0], re.M)
    lines = [
        "--version",
        "nonsense",
        *(f"{name} --help" for name in commands),
        *(f"schema {name}" for name in DOCUMENTS),
    ]
    return {"--help": output_text(top)} | {line: output_text(product.run(folder, *line.split())) for line in lines}


def run_step(product: Product, folder: Path) -> Files:
    """Run the Action's entry point for the events of a pull request, with the tests' fake GitHub."""
    seen: dict[str, str] = {}

    def start(environ: Mapping[str, str], workspace: Path, files: Path) -> tuple[int, bytes, bytes]:
        known = {"PATH": os.environ["PATH"], "HOME": str(files / "home"), **environ}
        ended = product.start((product.python, str(product.tree / "entrypoint.py")), workspace, known)
        said = {"step": output_text(ended), **files_of(files)}
        seen.update({f"{files.name}/{name}": text for name, text in said.items()})
        return ended.returncode, ended.stdout.encode(), ended.stderr.encode()

    folder.mkdir(parents=True)
    with FakeGitHub() as hub:
        try:
            whole_life(hub, Project(folder), start)
        except AssertionError as error:
            seen["failed"] = repr(error)
        calls = [
            f"{call.method} {call.path} {sorted(call.query.items())}\n"
            + json.dumps(call.body, indent=1, ensure_ascii=False).replace("\\n", "\n")
            for call in hub.requests
        ]
    return {**seen, "requests": "\n".join(calls)}


def run_generated(product: Product, folder: Path, first: int) -> Files:
    """Run random suites in one process; return their output."""
    numbers = range(first, first + TOGETHER)
    suites = {f"{number:04}/{name}": text for number in numbers for name, text in generated_suite(number).items()}
    write(folder, suites)
    ended = product.start((product.python, "-c", RUN, json.dumps(LINES)), folder, product.environ)
    if ended.returncode:
        raise click.ClickException(output_text(ended))
    said: dict[str, str] = json.loads(ended.stdout)
    # Skip the pages: their compressed data contains durations.
    written = {name: text for name, text in files_of(folder).items() if not name.endswith(".html")}
    return said | {name: text for name, text in written.items() if name not in suites}


def all_jobs(inputs: Path) -> dict[str, Job]:
    """Return all jobs by name."""
    made: dict[str, Job] = {"help": show_help, "step": run_step}
    made |= {f"generated-{first}": partial(run_generated, first=first) for first in range(0, GENERATED, TOGETHER)}
    shipped = {"-".join(path.parent.parts[-2:]): files_of(path.parent) for path in sorted(inputs.rglob("agent.yaml"))}
    for name in {**DATA["suites"], **shipped}:
        files = {**shipped.get(name, {}), **DATA["suites"].get(name, {})}
        recorded = "cassette/README.md" in files
        # The samples are much alike; the other suites cover commands that read a record.
        usual = COMMANDS if recorded or name not in shipped else COMMANDS[:SHORT]
        commands = (*usual, *((LIVE,) if recorded else ()), *DATA["commands"].get(name, ()))
        made[name] = partial(run_suite, files=files, commands=commands)
        if name in DATA["wrong"]:
            made[f"{name}-wrong"] = partial(validate_mistakes, files=files)
    return made


def collect_outputs(commit: str, home: Path, chosen: Mapping[str, Job], models: FakeModels) -> dict[str, str]:
    """Run the chosen jobs with one commit; return everything that it wrote, by job and name."""
    # Both commits use the same folders, since output contains their names.
    for name in ("product", "work"):
        shutil.rmtree(home / name, ignore_errors=True)
    # A server of the tests takes the place of those that the samples would download by npx.
    npx = write(home / "bin", {"npx": f"#!/bin/sh\nexec {sys.executable} {MCP_SERVER}\n"}) / "npx"
    npx.chmod(0o755)
    environ = {
        "PATH": f"{npx.parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home / "home"),
        "OPENAI_BASE_URL": models.openai_url,
        "OLLAMA_BASE_URL": models.ollama_url,
        "ANTHROPIC_BASE_URL": models.anthropic_url,
        "AZURE_OPENAI_ENDPOINT": models.azure_url,
        "PLANTED": "top-secret-word",
        **dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AZURE_OPENAI_API_KEY"), KEY),
    }
    product = install(commit, home / "product", environ)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        ended = {name: pool.submit(job, product, home / "work" / name) for name, job in chosen.items()}
        return {
            f"{job}/{name}": mask_volatile(text)
            for job, files in ended.items()
            for name, text in files.result().items()
        }


@click.command()
@click.argument("before")
@click.argument("after")
@click.option("--only", multiple=True, help="Part of the name of what is compared.")
@click.option("--keep", type=click.Path(path_type=Path), help="Write what both commits wrote into this folder.")
def main(before: str, after: str, only: tuple[str, ...], keep: Path | None) -> None:
    """Compare what two commits write; exit code 1 when anything differs."""
    with tempfile.TemporaryDirectory(prefix="compare-") as root, FakeModels() as models:
        models.answer(answer)
        home = Path(root)
        extract(before, home / "inputs", "examples", "tests/data")
        named = all_jobs(home / "inputs")
        chosen = {name: job for name, job in named.items() if not only or any(part in name for part in only)}
        one, other = (collect_outputs(commit, home, chosen, models) for commit in (before, after))
    one = {name: reworded(text) for name, text in one.items()}
    if keep:
        write(keep / "before", one)
        write(keep / "after", other)
    differing = [name for name in sorted(one | other) if one.get(name) != other.get(name)]
    for name in differing:
        # The record of a case is one long line.
        old, new = (files.get(name, "").replace(',"', ',\n"').splitlines() for files in (one, other))
        lines = list(difflib.unified_diff(old, new, f"{before}: {name}", f"{after}: {name}", lineterm="", n=1))
        click.echo("\n".join([*lines[:SHOWN_LINES], *(["…"] if len(lines) > SHOWN_LINES else [])]))
    click.echo(f"{len(one)} texts of {len(chosen)} jobs compared, {len(differing)} differ")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
