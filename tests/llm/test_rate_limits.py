"""Rate limits of whole runs, in time that runs ahead: no case is lost, nobody is charged, and it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import httpx2
import pytest

from holodeck_action.llm.calls import CALL, CallContext, HttpRequest, Meter, WireError
from holodeck_action.llm.limits.pauses import Deadline, TimeLimit, stop_during_calls
from holodeck_action.llm.limits.window import IN_A_ROW, MAX_TRIALS, Window
from holodeck_action.llm.wire import Wire
from holodeck_action.metrics.registry import built_in
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.facts import Fact
from holodeck_action.record.record import ToolAssertion, ToolInvocation, TrialRecord
from holodeck_action.run.loop import LoopResult, run_trials
from holodeck_action.run.schedule import Slots, Stop
from holodeck_action.run.trial import Clock, Deadlines, TrialRunner
from holodeck_action.run.trial_plans import AllTrials
from holodeck_action.scoring.scoring import Answer
from holodeck_action.suite.loader import load_suite
from holodeck_action.suite.values import Case, Turn
from holodeck_action.targets.protocol import Agent, PartialTurn, Reply
from holodeck_action.text.redaction import Redactor
from tests.llm.ahead import (
    LATENCY_S,
    STARTED_AT,
    Says,
    Service,
    at_most_at_once,
    at_most_per_second,
    from_a_bucket,
    refusing_each,
    run_ahead,
    shut_for,
    wire_ahead,
)
from tests.llm.models import FakeModels, Fault
from tests.llm.wiring import Clock as Skipping
from tests.llm.wiring import account, chat, opened, post, run


@dataclass
class Asking(Agent):
    """An agent that asks a model once for each turn, and its own session."""

    timed = True
    session_id: str | None = field(default=None, init=False)

    wire: Wire
    base_url: str
    within: float
    open_now: int = 0
    most_open: int = 0

    async def open(self, case: Case, trial: int) -> Asking:
        self.open_now += 1
        self.most_open = max(self.most_open, self.open_now)
        return self

    async def prepare(self) -> None:
        return None

    async def send(self, turn: Turn) -> Reply:
        deadline = Deadline(self.within, asyncio.get_running_loop().time)
        CALL.set(CallContext("agent", 0, deadline, Meter()))
        who = account(self.base_url)
        content = json.dumps(chat(turn.input)).encode()
        headers = {"content-type": "application/json", "authorization": f"Bearer {who.key}"}
        with stop_during_calls(deadline):
            try:
                answer = await self.wire.answer(
                    who, HttpRequest(f"{self.base_url}/chat/completions", headers, content, chat(turn.input))
                )
            except WireError as error:
                raise AgentError(error.message, error.code) from error
        if answer.status != 200:
            raise AgentError(f"status {answer.status}", "http_status")
        return Reply("answered")

    async def complete_reply(self, reply: Reply) -> Reply:
        return reply

    def partial_turn(self) -> PartialTurn:
        return PartialTurn()

    async def close(self) -> None:
        self.open_now -= 1


class Content:
    """A scorer that is content with everything."""

    async def score(self, answer: Answer) -> tuple[Evaluation, ...]:
        return ()

    async def check_tools(self, turn: Turn, calls: Fact[tuple[ToolInvocation, ...]]) -> tuple[ToolAssertion, ...]:
        return ()

    def uses_context(self, turn: Turn) -> bool:
        return False

    def pending_evaluations(self, turn: Turn, reason: str) -> tuple[Evaluation, ...]:
        return ()


@dataclass
class Ran:
    """How a run went."""

    outcome: LoopResult
    most_open: int
    service: Service
    seconds: float = 0.0
    errors: list[str] = field(default_factory=list)


def ran(
    tmp_path: Path,
    says: Says,
    cases: int = 100,
    at_once: int = 10,
    *,
    turn_s: float = 10,
    run_s: float | None = None,
    refusal_s: float = LATENCY_S,
    rate_limit_wait_s: float = 300.0,
    service: Service | None = None,
) -> Ran:
    """Run cases of one turn against a service."""
    service = service or Service(says, refusal_s)

    async def work() -> Ran:
        wire = wire_ahead(service, at_once, rate_limit_wait_s=rate_limit_wait_s)
        try:
            return await outcome(tmp_path, wire, "http://models.example/v1", service, cases, at_once, turn_s, run_s)
        finally:
            await wire.close()

    result, result_s = run_ahead(work)
    result.seconds = result_s
    return result


async def outcome(
    tmp_path: Path,
    wire: Wire,
    base_url: str,
    service: Service,
    cases: int,
    at_once: int,
    turn_s: float,
    run_s: float | None = None,
) -> Ran:
    suite = {
        "name": "s",
        "model": {"provider": "openai", "name": "gpt-4o"},
        "instructions": {"inline": "Answer."},
        "evaluations": {"metrics": [{"type": "standard", "metric": "equality"}]},
        "test_cases": [{"input": f"question {number}", "ground_truth": "answered"} for number in range(cases)],
    }
    (tmp_path / "agent.yaml").write_text(json.dumps(suite))
    loaded = load_suite(tmp_path / "agent.yaml", environ={}, home=None, metrics=built_in()).cases
    agent = Asking(wire, base_url, turn_s)
    clock = Clock(lambda: datetime.now(UTC), asyncio.get_running_loop().time)
    trials = TrialRunner(agent, Content(), Deadlines(turn_s, 2 * turn_s), clock, Redactor(()))
    trials_done: list[TrialRecord] = []
    stop = Stop()
    wire.on_outage = stop.drain
    found = await run_trials(
        AllTrials(loaded, stop_when_decided=False),
        trials,
        Slots(at_once).lane(),
        stop,
        timeout_s=run_s,
        on_trial=lambda case, trial: trials_done.append(trial),
    )
    return Ran(found, agent.most_open, service, errors=errors(trials_done))


def errors(trials: Sequence[TrialRecord]) -> list[str]:
    return [turn.error.message for trial in trials for turn in trial.turns if turn.error is not None]


@pytest.mark.parametrize(
    ("says", "at_once", "seconds", "requests"),
    [
        # Refused by themselves: the peers that lose nothing take 8 and 30 s.
        (lambda: refusing_each(1, "1"), 10, 12, 200),
        (lambda: refusing_each(3, "1"), 10, 42, 400),
        (lambda: refusing_each(3, ""), 10, 30, 400),
        # Limits of the account: what it takes is used, and little is asked in vain.
        (lambda: at_most_per_second(20, ""), 10, 6, 125),
        (lambda: at_most_per_second(20, "1"), 10, 6, 125),
        # The first wave cannot be taken back where refusals take as long as answers.
        (lambda: at_most_per_second(20, "1"), 64, 6.5, 215),
        (lambda: at_most_at_once(8, ""), 10, 3.7, 126),
        (lambda: at_most_at_once(8, "1"), 10, 4, 125),
        # Asked at once from the first moment: what was too much is refused once.
        (lambda: at_most_at_once(8, "1"), 64, 3.6, 176),
        (lambda: at_most_at_once(20, "1"), 100, 3.2, 212),
        # Shut for some seconds: few ask meanwhile.
        (lambda: shut_for(10, "10"), 10, 15, 130),
        (lambda: shut_for(10, "1"), 10, 16, 170),
        (lambda: shut_for(60, "60"), 10, 70, 130),
    ],
)
def test_no_case_is_lost_to_a_rate_limit(
    tmp_path: Path, says: Callable[[], Says], at_once: int, seconds: float, requests: int
) -> None:
    result = ran(tmp_path, says(), at_once=at_once)
    print(f"{result.seconds:.1f} s, {result.service.requests} requests")
    assert result.errors == []
    assert result.service.statuses[200] == 100
    assert result.seconds <= seconds
    assert result.service.requests <= requests
    assert result.most_open <= 2 * at_once


@pytest.mark.parametrize("asks", ["", "1"])
@pytest.mark.parametrize(("at_once", "requests"), [(10, 115), (20, 126), (100, 190)])
def test_a_rate_a_second_is_found_by_few_refusals_and_used(
    tmp_path: Path, asks: str, at_once: int, requests: int
) -> None:
    """Refusals come at once, as services send them; all that is asked in the first moment cannot be taken back."""
    result = ran(tmp_path, at_most_per_second(20, asks), at_once=at_once, refusal_s=0.004)
    print(f"{result.seconds:.1f} s, {result.service.requests} requests")
    assert result.errors == []
    assert result.service.requests <= requests
    assert result.seconds <= 1.1 * 100 / 20


class Opening(Service):
    """A service that takes its first requests late: all their connections are being opened."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if not self.times:
            await asyncio.sleep(0.15)
        return await super().handle_async_request(request)


def asked(service: Service, at_once: int, calls: int = 100) -> float:
    """Ask so many questions, all at the same time; return the seconds that it took."""

    async def work() -> None:
        wire = wire_ahead(service, at_once)
        asking = (post(wire, account("http://x/v1"), chat(f"question {number}")) for number in range(calls))
        assert {answer.status_code for answer in await asyncio.gather(*asking)} == {200}
        await wire.close()

    return run_ahead(work)[1]


@pytest.mark.parametrize("asks", ["", "1"])
def test_a_second_begins_when_the_account_counts_not_when_requests_are_sent(asks: str) -> None:
    service = Opening(at_most_per_second(20, asks), 0.004)
    seconds = asked(service, 100)
    print(f"{seconds:.1f} s, {service.requests} requests")
    assert service.requests <= 225
    assert seconds <= 1.2 * 100 / 20


@pytest.mark.parametrize("asks", ["", "1"])
@pytest.mark.parametrize(("capacity", "requests"), [(20, 145), (5, 180)])
def test_an_account_that_fills_up_evenly_is_used_evenly(asks: str, capacity: int, requests: int) -> None:
    service = Service(from_a_bucket(20, capacity, asks), 0.004)
    seconds = asked(service, 20)
    print(f"{seconds:.1f} s, {service.requests} requests")
    assert service.requests <= requests
    assert seconds <= 1.1 * 100 / 20


@pytest.mark.parametrize(("most", "span_s", "requests"), [(50, 2.0, 440), (60, 10.0, 400)])
def test_an_account_that_takes_nothing_for_seconds_tells_nothing_about_its_pace(
    tmp_path: Path, most: int, span_s: float, requests: int
) -> None:
    result = ran(tmp_path, at_most_per_second(most, "", span_s), 200, 64, refusal_s=0.004)
    print(f"{result.seconds:.1f} s, {result.service.requests} requests")
    assert result.errors == []
    assert result.service.requests <= requests


def openai(limit: str = "1200", remaining: str = "0", reset: str = "1m0s") -> dict[str, str]:
    values = {"limit": limit, "remaining": remaining, "reset": reset}
    return {f"x-ratelimit-{name}-requests": value for name, value in values.items()}


def anthropic(reset: datetime) -> dict[str, str]:
    values = {"limit": "1728000", "remaining": "0", "reset": reset.isoformat()}
    return {f"anthropic-ratelimit-requests-{name}": value for name, value in values.items()}


def limited(at_once: int, headers: Mapping[str, str]) -> tuple[int, float]:
    """Ask 100 questions of an account that takes 20 a second; return the requests and seconds that it took."""
    service = Service(at_most_per_second(20, ""), 0.004, headers)
    seconds = asked(service, at_once)
    return service.requests, seconds


@pytest.mark.parametrize(
    "headers",
    [
        openai(),
        openai(reset="60"),
        openai("20", reset="1000ms"),
        openai("72000", reset="1h0m0s"),
        anthropic(STARTED_AT + timedelta(days=1)),
    ],
)
@pytest.mark.parametrize(("at_once", "requests"), [(20, 130), (100, 190)])
def test_a_rate_that_refusals_state_is_kept_from_the_first_one_on(
    headers: Mapping[str, str], at_once: int, requests: int
) -> None:
    found, seconds = limited(at_once, headers)
    print(f"{seconds:.1f} s, {found} requests")
    assert found <= requests
    assert seconds <= 1.25 * 100 / 20


@pytest.mark.parametrize(
    "headers",
    [
        openai(remaining="3"),
        openai(remaining=""),
        openai("0"),
        openai("-5"),
        openai("1e3"),
        openai(reset=""),
        openai(reset="0s"),
        openai(reset="-60"),
        openai(reset="soon"),
        openai(reset="nan"),
        openai(reset="9" * 5_000),
        openai(reset="24h0m0s"),
        openai("999999999", reset="1ms"),
        anthropic(STARTED_AT - timedelta(seconds=60)),
        anthropic(datetime.max.replace(tzinfo=UTC)),
        anthropic(datetime(2026, 1, 1)),
    ],
)
def test_headers_that_state_no_rate_change_nothing(headers: Mapping[str, str]) -> None:
    assert limited(20, headers) == limited(20, {})


def test_one_refusal_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    service_says = refusing_each(1, "70")
    result = ran(
        tmp_path, lambda service, text, now: service_says(service, text, now) if text == "question 3" else None
    )
    assert result.errors == []
    assert result.seconds == pytest.approx(70, abs=10)
    # All others were over long before.
    assert sorted(result.service.times)[-2] - result.service.times[0] < 10


def test_a_service_that_refuses_for_ever_ends_the_run(tmp_path: Path) -> None:
    result = ran(tmp_path, lambda service, text, now: "1", rate_limit_wait_s=120)
    assert len(result.errors) == 100
    assert result.seconds < 160
    assert result.service.requests < 600


def test_the_deadline_of_the_run_ends_all_waiting(tmp_path: Path) -> None:
    result = ran(tmp_path, lambda service, text, now: "60", run_s=20)
    assert result.outcome.stopped == "the run deadline of 20 s was reached"
    assert result.seconds == pytest.approx(20, abs=0.1)


def test_a_turn_that_waits_for_nothing_but_its_answer_still_ends(tmp_path: Path) -> None:
    result = ran(tmp_path, refusing_each(1, "5"), 4, turn_s=LATENCY_S / 2)
    assert result.errors == ["the agent did not answer within 0.1 s"] * 4


@pytest.mark.parametrize("asks", ["70", "1e9", "-1", "past", "soon"])
def test_a_hundred_cases_pass_whatever_one_refusal_asks_for(tmp_path: Path, asks: str) -> None:
    """Over real HTTP, on a clock that skips what it waits."""
    if asks == "past":
        asks = format_datetime(STARTED_AT - timedelta(seconds=40), usegmt=True)
    elif asks == "soon":
        asks = format_datetime(STARTED_AT + timedelta(seconds=40), usegmt=True)

    async def work() -> None:
        with FakeModels() as models:
            models.fail(Fault("rate_limit", retry_after=asks))
            async with opened(clock=Skipping(), now=lambda: STARTED_AT) as wire:
                unused = Service(lambda service, text, now: None)
                result = await outcome(tmp_path, wire, models.openai_url, unused, 100, 10, 600)
            assert result.errors == []
            assert len(models.requests) == 101

    run(work)


def test_equal_calls_that_wait_for_the_first_one_s_turn_are_not_charged_either() -> None:
    service = Service(refusing_each(1, "70"))

    async def work() -> None:
        clock = asyncio.get_running_loop().time
        wire = wire_ahead(service, 4)

        async def asking() -> None:
            async with TimeLimit(5):
                deadline = Deadline(5, clock)
                CALL.set(CallContext("judge", 0, deadline, Meter()))
                content = json.dumps(chat("the same")).encode()
                answer = await wire.answer(account("http://x/v1"), HttpRequest("http://x/v1/c", {}, content, None))
                assert answer.status == 200
                # Standing still and going on again leaves what was left.
                assert deadline.seconds_left() == pytest.approx(5 - 2 * LATENCY_S, abs=0.01)

        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(asking())
        await wire.close()

    assert run_ahead(work)[1] > 70
    assert service.requests == 2


def test_accounts_do_not_hold_each_other_back() -> None:
    service = Service(lambda service, text, now: "60" if text.startswith("a") else None)

    async def work() -> float:
        clock = asyncio.get_running_loop().time
        wire = wire_ahead(service, 30, rate_limit_wait_s=100)

        async def asking(key: str, text: str) -> int:
            content = json.dumps(chat(text)).encode()
            return (
                await wire.answer(account("http://x/v1", key=key), HttpRequest("http://x/v1/c", {}, content, None))
            ).status

        shut = [asyncio.create_task(asking("sk-a", f"a {number}")) for number in range(40)]
        await asyncio.sleep(1)
        begun = clock()
        assert await asyncio.gather(*(asking("sk-b", f"b {number}") for number in range(40))) == [200] * 40
        took = clock() - begun
        ended = await asyncio.gather(*shut, return_exceptions=True)
        assert all(each == 429 or isinstance(each, WireError) for each in ended)
        await wire.close()
        return took

    assert run_ahead(work)[0] < 2


def test_a_breaker_is_opened_by_refusals_alone_and_tried_by_few_calls() -> None:
    window = Window(100, 300)

    def refuse(times: int, now: float) -> bool:
        for sent in [window.note_sent(now) for _ in range(times)]:
            window.note_refusal(sent, now, 10, None)
            window.busy -= 1
        return window.is_open

    def answer(now: float) -> None:
        window.note_answer(window.note_sent(now), now)
        window.busy -= 1

    assert not refuse(IN_A_ROW - 1, 0.0)
    answer(0.5)
    assert refuse(IN_A_ROW, 1.0)
    assert window.seconds_to_trial(1.0) == pytest.approx(11)
    trials = []
    for at in range(12, 100, 12):
        window.allow_trials()
        trials.append(window.trials)
        assert refuse(1, at)
        assert window.trials == 0
    assert trials == [1, 2, *([MAX_TRIALS] * 6)]
    assert not window.is_given_up(100)
    assert window.is_given_up(301)
    answer(302)
    assert not refuse(1, 1000)
    assert not window.is_given_up(2000)


def test_a_call_of_its_own_waits_its_turn_beside_a_limit_that_is_over() -> None:
    """A task that outlives the limit in which it began does not trip over it."""

    async def work() -> None:
        async with TimeLimit(0.05) as limit:
            limit.stop()
            limit.stop()
            await asyncio.sleep(1)
            limit.resume()
            await asyncio.sleep(1)
            limit.resume()
            await asyncio.sleep(0.04)
        limit.stop()
        limit.resume()
        with pytest.raises(TimeoutError):
            async with TimeLimit(0.05) as limit:
                await asyncio.sleep(1)
        assert limit.has_expired()

    assert run_ahead(work)[1] == pytest.approx(2.09, abs=0.01)
