"""Replay is proof: what was recorded on one machine gives the same report in a container, offline and keyless."""

from __future__ import annotations

from pathlib import Path

import pytest

from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.result_files import read_record
from tests.commands.project import Project
from tests.image.conftest import WORKSPACE, Engine
from tests.llm.models import KEY, FakeModels
from tests.targets.test_samples_live import answered, copied

pytestmark = pytest.mark.image


@pytest.fixture
def recorded(project: Project) -> Project:
    """A suite with documents, structured answers and judges, recorded by this machine's command line."""
    with FakeModels(keys=[KEY]) as models:
        models.answer(answered)
        environ = copied("content-moderation/openai", project, models)
        finished, _ = project.evaluate("--record", "cassette", **environ)
        assert finished.code == 0, finished.stdout + finished.stderr
        assert models.violations == []
    (project.folder / "out").rename(project.folder / "recorded")
    return project


def replay(engine: Engine, folder: Path) -> tuple[int, str]:
    ended = engine.run(
        *("run", "--replay", "cassette", "-o", "out"),
        # The recording says where it was made; nobody is asked there.
        environ={"OPENAI_BASE_URL": "http://localhost/v1", "OPENAI_API_KEY": ""},
        mounts={folder: WORKSPACE},
    )
    return ended.code, ended.stdout + ended.stderr


def test_a_recording_gives_the_same_bytes_without_network_and_keys(engine: Engine, recorded: Project) -> None:
    code, told = replay(engine, recorded.folder)

    assert code == 0, told
    here, there = (canonical_json(read_record(recorded.folder / name / "results.json")) for name in ("recorded", "out"))
    assert here == there
    for kind in ("markdown", "html", "junit", "json", "csv"):
        reports = [
            engine.run(
                *("report", f"{name}/results.json", "--canonical", "--format", kind),
                mounts={recorded.folder: WORKSPACE},
            ).stdout
            for name in ("recorded", "out")
        ]
        assert reports[0] == reports[1]
        assert len(reports[0]) > 500


def test_one_changed_character_of_a_prompt_is_told_with_the_difference(engine: Engine, recorded: Project) -> None:
    prompt = recorded.folder / "instructions" / "system-prompt.md"
    text = prompt.read_text(encoding="utf-8")
    prompt.write_text(text.replace("moderat", "noderat", 1), encoding="utf-8")

    code, told = replay(engine, recorded.folder)

    assert code == 3, told
    assert "noderat" in told
    assert "cassette" in told
