"""Hundreds of cases of each provider with trouble in nearly a third of the requests: each ends as its trouble says.

Which case meets what is drawn before the run, so what every case, every request and every token must come to is known.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest

from tests.commands.project import Project
from tests.llm.models import KEY, Answer, FakeModels, Fault, Reply, Request

pytestmark = pytest.mark.full

CASES = 250
SHARE = 0.3
MOST_PASSING = 2
"""Passing faults of one case."""
CONCURRENCY = 32
PROVIDERS = ("openai", "azure_openai", "anthropic", "ollama")

# Over with the next try.
PASSING = (
    Fault("rate_limit"),
    Fault("rate_limit", retry_after="0"),
    Fault("rate_limit", retry_after_ms="15"),
    Fault("rate_limit", retry_after="Wed, 21 Oct 2015 07:28:00 GMT"),
    Fault("rate_limit", retry_after="soon"),
    Fault("server_error"),
    Fault("server_error", retry_after_ms="10"),
    Fault("bad_gateway"),
    Fault("unavailable", retry_after="0"),
    Fault("overloaded"),
    Fault("overloaded", streamed=True),
    Fault(status=529, body={"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    Fault(wire="reset"),
    Fault(wire="close"),
    Fault(wire="truncate"),
    Fault(wire="malformed"),
    Fault(status=200, body=b'{"id": "x", "choices": [{"mess', headers={"content-type": "application/json"}),
    Fault(status=200, body=b"", headers={"content-type": "application/json"}),
    Fault(status=200, body=b"<html>maintenance</html>", headers={"content-type": "text/html"}),
)
# Not tried again. With the error's code; None where it is an answer, which the metric lets fail.
LASTING: tuple[tuple[Reply, str | None], ...] = (
    (Fault("quota"), "quota"),
    (Fault("bad_key"), "authentication"),
    (Fault("unknown_model"), "model_not_found"),
    (Fault("context_length"), "context_length"),
    (Fault("content_filter"), "content_filter"),
    (Fault("bad_request"), "bad_request"),
    (Fault("too_large"), "bad_request"),
    (Fault(status=200, body=b"{}", headers={"content-type": "application/json"}), "bad_reply"),
    (Answer("half of it", finish="content_filter"), "content_filter"),
    (Answer(refusal="I would rather not."), None),
    (Answer(""), None),
    (Answer("another answer"), None),
)


@dataclass(frozen=True)
class Plan:
    """What a case meets: faults, one a try, then its end; `code` is the error's, None for an answer."""

    faults: tuple[Fault, ...]
    end: Reply
    code: str | None = None
    right: bool = False

    @property
    def tries(self) -> int:
        return len(self.faults) + 1


def plans(provider: str) -> list[Plan]:
    random = Random(f"faults of {provider}")
    # Ollama has neither a filter nor a word for an account without credit.
    lasting = [each for each in LASTING if provider != "ollama" or each[1] not in ("quota", "content_filter")]
    made = []
    for number in range(CASES):
        faults: list[Fault] = []
        while len(faults) < MOST_PASSING and random.random() < SHARE:
            faults.append(random.choice(PASSING))
        if random.random() < SHARE / 5:
            made.append(_lasting(provider, number, tuple(faults), *random.choice(lasting)))
        else:
            made.append(Plan(tuple(faults), _paid(Answer(f"answer {number}"), number), right=True))
    return made


def _lasting(provider: str, number: int, faults: tuple[Fault, ...], end: Reply, code: str | None) -> Plan:
    if isinstance(end, Answer):
        # What Anthropic's filter stops ends as the model's own refusal does.
        return Plan(faults, _paid(end, number), None if provider == "anthropic" else code)
    return Plan(faults, end, code)


def _paid(answer: Answer, number: int) -> Answer:
    """Give a case's answer tokens by which it can be told from the others."""
    return replace(answer, prompt_tokens=1000 + number, completion_tokens=1 + number % 7)


class Script:
    """Gives each case what its plan says, try by try (in the server's thread)."""

    def __init__(self, made: list[Plan]) -> None:
        self._plans = made
        self.tries: Counter[int] = Counter()

    def __call__(self, request: Request) -> Reply:
        number = int(request.text.rpartition(" ")[2])
        plan, tried = self._plans[number], self.tries[number]
        self.tries[number] += 1
        return plan.faults[tried] if tried < len(plan.faults) else plan.end


def suite(project: Project, models: FakeModels, provider: str) -> None:
    places: dict[str, tuple[str, dict[str, Any]]] = {
        "openai": (models.openai_url, {}),
        "azure_openai": (models.azure_url, {"api_version": "2024-10-21"}),
        # Without a limit of its own an answer is streamed.
        "anthropic": (models.anthropic_url, {"max_tokens": None}),
        "ollama": (models.ollama_url, {}),
    }
    address, more = places[provider]
    name = "claude-opus-4-6" if provider == "anthropic" else "chosen"
    model: dict[str, Any] = {"provider": provider, "name": name, "endpoint": address, "api_key": KEY, **more}
    numbers = range(CASES)
    cases = [{"name": f"case {n}", "input": f"question {n}", "ground_truth": f"answer {n}"} for n in numbers]
    project.suite(cases, model=model)
    project.policy(limits={"concurrency": CONCURRENCY})


@pytest.mark.full
@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_case_ends_as_its_trouble_says(project: Project, models: FakeModels, provider: str) -> None:
    made, script = plans(provider), Script(plans(provider))
    models.answer(script)
    suite(project, models, provider)

    finished, record = project.evaluate()

    assert KEY not in finished.stdout + finished.stderr
    assert [case.name for case in record.cases] == [f"case {number}" for number in range(CASES)]
    assert len({case.id for case in record.cases}) == CASES
    ends, expected = {}, {}
    for number, (case, plan) in enumerate(zip(record.cases, made, strict=True)):
        (trial,) = case.trials
        (turn,) = trial.turns
        usage = turn.usage and (turn.usage.prompt_tokens, turn.usage.completion_tokens)
        ends[number] = (turn.error and turn.error.code, usage, turn.response == f"answer {number}")
        # What was answered is paid for, usable or not.
        told = (1000 + number, 1 + number % 7) if isinstance(plan.end, Answer) else None
        expected[number] = (plan.code, told, plan.right)
        assert trial.error is None
        assert turn.error is None or turn.error.message
    assert {n: (end, expected[n], made[n]) for n, end in ends.items() if end != expected[n]} == {}
    # None was tried once too often or too rarely, and the mixture is what it is meant to be.
    assert {n: tries for n, tries in script.tries.items() if tries != made[n].tries} == {}
    share = sum(plan.tries - plan.right for plan in made) / sum(plan.tries for plan in made)
    assert share == pytest.approx(SHARE, abs=0.08)
    if provider == "anthropic":
        assert all(request.stream for request in models.requests)
    calls = record.run.model_calls
    assert calls is not None
    assert (calls.calls, calls.requests) == (CASES, len(models.requests))
    # The verdict counts each case once. A failed case is a violation, whatever else is missing.
    passed, errors = sum(plan.right for plan in made), sum(plan.code is not None for plan in made)
    counts = project.verdict()["counts"]
    assert (counts["passed"], counts["failed"], counts["error"]) == (passed, CASES - passed - errors, errors)
    assert finished.code == 1
