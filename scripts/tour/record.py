"""Records the verdicts of the judge in examples/repository/shop/production, with the scripted models.

    python -m scripts.tour.record

It is needed after a change of the suite there, of nights.yaml or of the judge in model.yaml.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import click

from scripts.tour.model import ScriptedModel
from scripts.tour.nights import write_night
from scripts.tour.tour import EXAMPLE, KEY
from tests.commands.project import Project
from tests.llm.models import FakeModels

_LABEL = """# Recorded from a scripted server

The verdicts in this folder are no model's: a server on loopback was scripted to give them, with made-up token counts.
"""
_SUITE = EXAMPLE / "shop" / "production"


@click.command(help=__doc__.partition("\n")[0] if __doc__ else None)
def main() -> None:
    verdicts = _SUITE / "verdicts"
    shutil.rmtree(verdicts, ignore_errors=True)
    with tempfile.TemporaryDirectory() as name, FakeModels() as models:
        models.answer(ScriptedModel(EXAMPLE / "model.yaml"))
        for night in ("week", "night"):
            write_night(EXAMPLE / "nights.yaml", night, Path(name) / "nights" / f"{night}.jsonl")
        done = Project(Path(name)).run_process(
            *("run", str(_SUITE / "agent.yaml"), "--target", "traces:nights", "--record", str(verdicts), "-o", "out"),
            OPENAI_API_KEY=KEY,
            OPENAI_BASE_URL=models.openai_url,
        )
    if done.code not in (0, 1) or models.violations:
        raise click.ClickException("\n".join([done.stdout, done.stderr, *models.violations]))
    (verdicts / "README.md").write_text(_LABEL, encoding="utf-8")
    count = len((verdicts / "cassette.jsonl").read_bytes().splitlines())
    click.echo(f"{verdicts.relative_to(EXAMPLE)}: {count} calls")


if __name__ == "__main__":
    main()
