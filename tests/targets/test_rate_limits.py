"""Rate limits as a run of the command meets them: waiting is charged to nobody, and ends with a setting to change."""

from __future__ import annotations

import pytest

from tests.commands.project import Project
from tests.llm.models import KEY, FakeModels, Fault
from tests.targets.test_own import asking, recorded_error

KEYS = {"OPENAI_API_KEY": KEY}


@pytest.mark.proves("Limits: rate_limit_wait_s")
def test_a_rate_limit_that_does_not_end_is_an_error_that_names_the_setting(
    project: Project, models: FakeModels
) -> None:
    asking(project, models)
    project.policy(limits={"rate_limit_wait_s": 0.1})
    models.fail(Fault("rate_limit", retry_after_ms="150", times=None))
    finished, record = project.evaluate(**KEYS)
    assert finished.code == 3
    error = recorded_error(record)
    assert error.code == "rate_limited"
    assert "`limits.rate_limit_wait_s`" in error.message
    assert len(models.requests) == 1
    # With more patience it passes.
    project.policy(limits={"rate_limit_wait_s": 50})
    models.heal()
    models.fail(Fault("rate_limit", retry_after_ms="150", times=2))
    assert project.evaluate(**KEYS)[0].code == 0


@pytest.mark.needs
@pytest.mark.parametrize("refused", ["agent", "judge"])
def test_waiting_takes_nothing_from_the_time_of_turns_cases_and_metrics(
    project: Project, models: FakeModels, refused: str
) -> None:
    """It is longer than these times, which a slow machine may need: then all are longer."""
    metric = {"type": "geval", "name": "Right", "criteria": "Is it right?", "threshold": 0.5}
    verdict = {"steps": ["a"], "score": 8, "reason": "r"}
    models.answer(lambda request: "echo: ping" if request.text == "ping" else verdict)
    for seconds in (2, 8, 32):
        asking(project, models, evaluations={"metrics": [{**metric, "timeout_ms": 1000 * seconds}]})
        project.policy(limits={"turn_timeout_s": seconds, "case_timeout_s": seconds})
        wait = str(seconds + 1)
        models.fail(
            Fault("rate_limit", retry_after=wait, about=lambda each: (refused == "agent") == (each.text == "ping"))
        )
        before = models.statuses[429]
        finished, record = project.evaluate(**KEYS)
        if finished.code == 0:
            break
    assert finished.code == 0, finished.stdout + finished.stderr
    assert models.statuses[429] == before + 1
    assert record.run.duration_ms > 1000 * seconds
