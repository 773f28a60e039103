"""`optimize --apply`: which bytes of agent.yaml change, and when it is refused."""

from __future__ import annotations

import os

import pytest

from tests.commands.project import Project
from tests.extensions.race.tuning import TEMPERATURE, TOP_P, optimize, outcome, tuned, write
from tests.llm.models import KEY, FakeModels, Reply, Request

pytestmark = pytest.mark.models(answer=tuned)
BOTH = (TEMPERATURE, TOP_P)


def replaced(project: Project, *pairs: tuple[str, str]) -> bytes:
    """Change agent.yaml, and return its bytes."""
    text = (project.folder / "agent.yaml").read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return project.write("agent.yaml", text).read_bytes()


@pytest.mark.full
@pytest.mark.proves("optimize: --apply")
def test_only_the_named_values_change(project: Project, models: FakeModels) -> None:
    write(project, models, 100, BOTH, top_p="'1.0'")
    before = replaced(project, ("\n", "\r\n"), ("# The suite of our shop.", "\ufeff# Die Süße der Umfrage 😀"))
    os.chmod(project.folder / "agent.yaml", 0o640)
    finished = optimize(project, "--apply")
    assert finished.code == 0, finished.stderr
    after = (project.folder / "agent.yaml").read_bytes()
    expected = before.replace(b"temperature: 0.7  # never tuned", b"temperature: 0.2  # never tuned")
    assert after == expected.replace(b"top_p: '1.0'", b"top_p: '0.5'")
    assert after != before
    assert (project.folder / "agent.yaml").stat().st_mode & 0o777 == 0o640
    lines = finished.stdout.splitlines()
    assert [line for line in lines if line.startswith(("+", "-"))] == [
        *("--- a/agent.yaml", "+++ b/agent.yaml"),
        *("-  temperature: 0.7  # never tuned", "-  top_p: '1.0'"),
        *("+  temperature: 0.2  # never tuned", "+  top_p: '0.5'"),
    ]
    assert project.run("validate").code == 0
    # Now the values are the present ones.
    assert optimize(project, "--apply", "-o", "again").code == 0
    assert outcome(project, "again")["outcome"] == "unchanged"
    assert (project.folder / "agent.yaml").read_bytes() == after


@pytest.mark.full
def test_a_link_stays_a_link(project: Project, models: FakeModels) -> None:
    write(project, models)
    (project.folder / "agent.yaml").rename(project.folder / "real.yaml")
    (project.folder / "agent.yaml").symlink_to("real.yaml")
    assert optimize(project, "--apply").code == 0
    assert (project.folder / "agent.yaml").is_symlink()
    assert "temperature: 0.2  # never" in (project.folder / "real.yaml").read_text()


@pytest.mark.parametrize("environ", [{"CI": "true"}, {"GITHUB_ACTIONS": "true"}])
def test_it_is_refused_in_ci(project: Project, models: FakeModels, environ: dict[str, str]) -> None:
    before = write(project, models)
    finished = optimize(project, "--apply", **environ)
    assert finished.code == 2
    assert "--apply changes agent.yaml and is refused in CI; leave it out" in finished.stderr
    assert not models.requests
    assert (project.folder / "agent.yaml").read_text() == before
    assert optimize(project, "--dry-run", **environ).code == 0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  temperature: 0.7  # never tuned\n", "", "has no model.temperature to change"),
        ("temperature: 0.7", "temperature: ${HEAT}", "model.temperature is no plain value"),
        ("temperature: 0.7", "temperature: &heat 0.7", "model.temperature is no plain value"),
        ("temperature: 0.7", "temperature: !!float 0.7", "model.temperature is no plain value"),
        ("model:\n", "base: &base {temperature: 0.7}\nmodel:\n  <<: *base\n", ""),
    ],
)
def test_a_value_without_a_place_of_its_own_is_refused_before_anything_is_asked(
    project: Project, models: FakeModels, old: str, new: str, said: str
) -> None:
    write(project, models)
    replaced(project, (old, new))
    finished = optimize(project, "--apply", HEAT="0.7")
    assert finished.code == 2
    assert said in finished.stderr
    assert not models.requests


@pytest.mark.full
def test_a_file_that_was_changed_meanwhile_stays(project: Project, models: FakeModels) -> None:
    write(project, models)
    changed: list[bytes] = []

    def rule(request: Request) -> Reply:
        if not changed:
            changed.append(replaced(project, ("# The suite", "# Our suite")))
        return tuned(request)

    models.answer(rule)
    finished = optimize(project, "--apply")
    assert finished.code == 2
    assert "--apply: agent.yaml was changed in the meantime, and stays as it is; change it yourself" in finished.stderr
    assert (project.folder / "agent.yaml").read_bytes() == changed[0]
    assert outcome(project)["outcome"] == "improved"


@pytest.mark.full
def test_secrets_are_masked_in_the_difference(project: Project, models: FakeModels) -> None:
    write(project, models)
    replaced(project, ("  temperature: 0.7", f"  api_key: {KEY}\n  temperature: 0.7"))
    finished = project.run("optimize", "-o", "out", "--apply")
    assert finished.code == 0, finished.stderr
    assert "+  temperature: 0.2" in finished.stdout
    assert KEY not in finished.stdout
    assert f"  api_key: {KEY}\n" in (project.folder / "agent.yaml").read_text()
