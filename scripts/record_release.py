"""Runs the suites of a released version's fixtures, and writes their records and what each command said about them.

    python -m scripts.record_release

The folder `tests/compatibility/released/VERSION` has suites in `suites/`, written by hand. The program runs them as in
`runs.yaml`: as processes, with models on loopback. It writes `records/`, `exit_codes.json` (those of `decide`),
`interface.json` (what docs/stability.md promises) and `digests.txt`, and prints the digest that
`tests/compatibility/test_released.py` has. It refuses a version that is tagged: every later version must read the files
of a release as they are.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import yaml

from holodeck_action import __version__
from scripts.describe_interface import interface
from tests.llm.models import KEY, Answer, FakeModels, Request

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "compatibility" / "released" / __version__.rpartition(".")[0]
KEPT = ("results.json", "verdict.json", "race.json", "history.jsonl", "cassette.jsonl")
"""The files of an output folder that a later version reads."""
_TIMEOUT_S = 120


@click.command()
def main() -> None:
    """Write the records of the version that `holodeck_action/__init__.py` names."""
    listing = ["git", "tag", "--list", f"v{__version__}"]
    tags = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
    if tags.stdout.strip():
        raise click.ClickException(f"v{__version__} is released: its files stay as they are")
    shutil.rmtree(FOLDER / "records", ignore_errors=True)
    runs: dict[str, Any] = yaml.safe_load((FOLDER / "runs.yaml").read_text(encoding="utf-8"))
    with FakeModels() as models, tempfile.TemporaryDirectory() as scratch:
        models.answer(judged)
        for name, run in runs.items():
            _run(Path(scratch) / name, name, run, models)
            click.echo(f"{name}: {len(run['commands'])} commands")
        if models.violations:
            raise click.ClickException("\n".join(models.violations))
    codes = {name: _exit_code(folder) for name, folder in records()}
    (FOLDER / "exit_codes.json").write_text(json.dumps(codes, indent=1) + "\n", encoding="utf-8")
    (FOLDER / "interface.json").write_text(interface_text(), encoding="utf-8")
    listed = "".join(f"{line}\n" for line in digests())
    (FOLDER / "digests.txt").write_text(listed, encoding="utf-8")
    click.echo(f"LISTS of test_released.py: {hashlib.sha256(listed.encode()).hexdigest()}")


def judged(request: Request) -> Answer:
    """Grade an answer that contains `Poor` badly, and any other well, as judge of quality or toxicity."""
    good = "Poor" not in request.text
    names = (request.schema or {}).get("properties", {})
    aspects = ("relevance", "coherence", "clarity", "completeness", "accuracy")
    kinds = ("hate_speech", "harassment", "violence", "sexual_content", "profanity", "identity_attack")
    grades: dict[str, Any] = {
        "reason": "good" if good else "it does not answer",
        "dimensions": dict.fromkeys(aspects, 0.9 if good else 0.2),
        "confidence": 0.8,
        "toxicity_categories": dict.fromkeys(kinds, 0.0),
        "overall_toxicity": 0.0,
        "content_warnings": [],
    }
    return Answer(json.dumps({name: grades[name] for name in names if name in grades}))


def _run(scratch: Path, name: str, run: Mapping[str, Any], models: FakeModels) -> None:
    shutil.copytree(FOLDER / "suites" / run.get("suite", name), scratch)
    kept = ("CI", "GITHUB_", "INPUT_", "HOLODECK_")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(kept)}
    environ |= {"HOME": str(scratch / "home"), "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": models.openai_url}
    for step in run["commands"]:
        if "copy" in step:
            shutil.copy(scratch / step["copy"], scratch / step["to"])
            continue
        if "delete" in step:
            (scratch / step["delete"]).unlink()
            continue
        command = [sys.executable, "-m", "holodeck_action.cli", *step["run"].split()]
        done = subprocess.run(
            command, cwd=scratch, env=environ, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        if done.returncode != step["exit"]:
            ended = f"{name}: {step['run']} ended with {done.returncode}"
            raise click.ClickException(f"{ended}\n{done.stdout}{done.stderr}")
    for file in sorted(path for path in (scratch / "out").rglob("*") if path.name in KEPT):
        to = FOLDER / "records" / name / file.relative_to(scratch / "out")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, to)


def records(folder: Path = FOLDER) -> Iterator[tuple[str, Path]]:
    """Yield name and folder of each record of a version that has a verdict; not those of a base inside another."""
    for file in sorted((folder / "records").rglob("verdict.json")):
        if file.with_name("results.json").is_file() and file.parent.name != "base":
            yield file.parent.relative_to(folder / "records").as_posix(), file.parent


def interface_text() -> str:
    """Return the interface as JSON, with a line for each part."""
    parts = (f" {json.dumps(name)}: {json.dumps(part, separators=(',', ':'))}" for name, part in interface().items())
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _exit_code(folder: Path) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        copy = shutil.copytree(folder, Path(scratch) / "record")
        command = [sys.executable, "-m", "holodeck_action.cli", "decide", str(copy)]
        return subprocess.run(command, cwd=scratch, capture_output=True, timeout=_TIMEOUT_S, check=False).returncode


def digests(folder: Path = FOLDER) -> list[str]:
    """Return a line with SHA-256 and path of each file below a folder, but for the list itself."""
    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    kept = [file for file in files if file.name != "digests.txt" and "__pycache__" not in file.parts]
    return [f"{hashlib.sha256((folder / file).read_bytes()).hexdigest()}  {file.as_posix()}" for file in kept]


if __name__ == "__main__":
    main()
