"""Simulates accounts and controllers of requests on a clock: `python -m bench.rate_limits [--write]`.

100 calls go to an account that answers after a latency, refuses a share of the requests at random, and has no limit,
takes 20 requests a second, or takes 8 at once. Retries, slots of sessions and the limit are the program's own; only
network and clock are not. `--store-old FILE` notes the figures of the controller that this commit has;
`rate_limits_old.json` has those of the controller before the present one. `--write` renews the tables of
docs/performance.md.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from random import Random
from statistics import median
from typing import Protocol

import click

from bench.pages import DOCS, markdown_table, replace_table
from holodeck_action.llm.calls import Account, Answer, Call, CallContext, HttpRequest, Link, Meter
from holodeck_action.llm.limits.limits import AccountLimit
from holodeck_action.llm.limits.pauses import use_slot
from holodeck_action.llm.limits.window import Window
from holodeck_action.llm.retries import Retries
from holodeck_action.run.schedule import Slots
from tests.llm.ahead import run_ahead

COMMAND = "python -m bench.rate_limits --write"
_OLD: Mapping[str, Sequence[float]] = json.loads(Path(__file__).with_name("rate_limits_old.json").read_text())
CALLS = 100
SEEDS = 5
LATENCIES = (0.05, 1.0, 10.0)
REFUSED = (0.0, 0.05, 0.1, 0.3)
LIMITS = ("none", "20 a second", "8 at once")
AT_ONCE = (10, 20, 100, None)
"""Calls at once that are set; None: nothing is set."""
UNSET = 10
"""Calls at once of the other controllers if nothing is set."""
RATE, MOST = 20, 8
REFUSAL_S = 0.004
"""Seconds until a refusal arrives; services refuse at their gate."""
SPREAD = 0.2
"""Latencies differ by up to this fraction."""
BOUND = 1.5
"""Times the best of all controllers that a row may take."""
MOST_REQUESTS = 1.3
"""Requests a call beside those that are refused at random, if the account limits the rate."""
STARTED_AT = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)


@dataclass(frozen=True)
class Situation:
    """One row: what the account does, and how many calls at once are set."""

    latency_s: float
    refused: float
    limit: str
    at_once: int | None

    @property
    def name(self) -> str:
        """The name of the row, and its key in the file of old figures."""
        return f"{self.latency_s:g} s, {self.refused:.0%} refused, {self.limit}, {self.at_once or 'nothing set'}"


@dataclass(frozen=True)
class Outcome:
    """Seconds until all calls were answered, and requests a call without those refused at random."""

    seconds: float
    requests: float


class Service:
    """The account: the last link of the chain."""

    def __init__(self, situation: Situation, random: Random, asks: str) -> None:
        self._situation, self._random = situation, random
        self._headers = (("retry-after", asks),) if asks else ()
        self._accepted: deque[float] = deque()
        self._at_once = 0
        self.requests = self.refused_at_random = 0

    async def __call__(self, call: Call) -> Answer:
        """Answer, or refuse."""
        call.attempts += 1
        self.requests += 1
        loop = asyncio.get_running_loop()
        by_chance = self._random.random() < self._situation.refused
        self.refused_at_random += by_chance
        if by_chance or not self._has_room(loop.time()):
            await asyncio.sleep(REFUSAL_S)
            return Answer(429, self._headers, b"", None, REFUSAL_S)
        self._accepted.append(loop.time())
        self._at_once += 1
        latency = self._situation.latency_s * self._random.uniform(1 - SPREAD, 1 + SPREAD)
        try:
            await asyncio.sleep(latency)
        finally:
            self._at_once -= 1
        return Answer(200, (), b"", None, latency)

    def _has_room(self, now: float) -> bool:
        if self._situation.limit == LIMITS[1]:
            while self._accepted and now - self._accepted[0] > 1:
                self._accepted.popleft()
            return len(self._accepted) < RATE
        return self._situation.limit == LIMITS[0] or self._at_once < MOST


class Controller(Protocol):
    """Makes the link that holds requests back, given the account and the most calls at once; None: nothing is set."""

    def __call__(self, service: Link, situation: Situation, most: int, now: Callable[[], datetime]) -> Link: ...


def no_controller(service: Link, situation: Situation, most: int, now: Callable[[], datetime]) -> Link:
    """Send everything that sessions ask."""
    return service


def fixed_rate(service: Link, situation: Situation, most: int, now: Callable[[], datetime]) -> Link:
    """Send as much as the account takes, which nobody can know: as many at once, or a second, in the order of the
    calls.
    """
    gate = asyncio.Semaphore(min(most, MOST) if situation.limit == LIMITS[2] else most)
    planned: deque[float] = deque(maxlen=RATE)

    async def send(call: Call) -> Answer:
        async with gate:
            if situation.limit == LIMITS[1]:
                now = asyncio.get_running_loop().time()
                planned.append(max(now, planned[0] + 1 + 1e-6) if len(planned) == RATE else now)
                await asyncio.sleep(planned[-1] - now)
            return await service(call)

    return send


def own_controller(service: Link, situation: Situation, most: int, now: Callable[[], datetime]) -> Link:
    """Send what the program sends."""
    return AccountLimit(
        service,
        "openai (x)",
        Window(most, 300.0, start=None if situation.at_once else UNSET),
        monotonic=asyncio.get_running_loop().time,
        pause=asyncio.sleep,
        now=now,
    )


CONTROLLERS: dict[str, Controller] = {"none": no_controller, "fixed": fixed_rate, "new": own_controller}


def simulate(controller: Controller, situation: Situation, seed: int, asks: str, unset: int) -> Outcome:
    """Make all calls; `unset` is how many at once there are if nothing is set."""
    outcome, _ = run_ahead(lambda: _calls(controller, situation, seed, asks, unset))
    return outcome


async def _calls(controller: Controller, situation: Situation, seed: int, asks: str, unset: int) -> Outcome:
    loop, random = asyncio.get_running_loop(), Random(seed)
    started, most = loop.time(), situation.at_once or unset

    def now() -> datetime:
        return STARTED_AT + timedelta(seconds=loop.time() - started)

    service = Service(situation, random, asks)
    account = Account("openai", "http://x", "k")
    retries = Retries(
        controller(service, situation, most, now),
        6,
        longest_wait_s=300.0,
        pause=asyncio.sleep,
        uniform=Random(seed + 1_000).uniform,
        now=now,
    )
    lane = Slots(most).lane()

    async def session() -> None:
        request = HttpRequest("http://x", {}, b"", None)
        async with lane.hold_slot() as slot:
            with use_slot(slot):
                answer = await retries(Call(account, request, CallContext("agent", 0, None, Meter())))
        assert answer.status == 200, situation.name

    async with asyncio.TaskGroup() as group:
        for _ in range(CALLS):
            group.create_task(session())
    return Outcome(loop.time() - started, (service.requests - service.refused_at_random) / CALLS)


def situations() -> list[Situation]:
    """Return all rows."""
    return [Situation(*values) for values in product(LATENCIES, REFUSED, LIMITS, AT_ONCE)]


def measure(name: str, controller: Controller, chosen: Sequence[Situation], asks: str) -> dict[str, list[Outcome]]:
    """Return the outcomes of a controller by row, one for each seed."""
    unset = CALLS if name == "new" else UNSET
    return {each.name: [simulate(controller, each, seed, asks, unset) for seed in range(SEEDS)] for each in chosen}


def summary(outcomes: Sequence[Outcome]) -> tuple[float, float, float]:
    """Return median and worst seconds, and median requests a call."""
    seconds = [outcome.seconds for outcome in outcomes]
    return median(seconds), max(seconds), median(outcome.requests for outcome in outcomes)


@click.command()
@click.option("--store-old", type=click.Path(path_type=Path))
@click.option("--only", default="", help="Only rows whose name has this text.")
@click.option("--asks", default="1", help="Retry-After of all refusals; empty: none.")
@click.option("--write", is_flag=True)
def main(store_old: Path | None, only: str, asks: str, write: bool) -> None:
    """Simulate, and print or write the tables."""
    chosen = [each for each in situations() if only in each.name]
    if store_old is not None:
        found = measure("old", own_controller, chosen, asks)
        store_old.write_text(
            json.dumps({name: [round(value, 3) for value in summary(each)] for name, each in found.items()}, indent=0)
        )
        return
    figures = {
        name: {row: summary(each) for row, each in measure(name, controller, chosen, asks).items()}
        for name, controller in CONTROLLERS.items()
    }
    rows = [
        Row(each, {**{name: figures[name][each.name] for name in figures}, "old": _OLD[each.name]}) for each in chosen
    ]
    for row in rows:
        click.echo(row)
    above = {name: sum(row.is_above(name) for row in rows) for name in ("old", "new")}
    click.echo(f"{above['new']} of {len(rows)} rows are above a bound; of the old controller {above['old']}")
    if write:
        replace_table(DOCS / "performance.md", "rate limits", COMMAND, compact_table(rows))


@dataclass(frozen=True)
class Row:
    """Median and worst seconds, and requests a call, of each controller in one situation."""

    situation: Situation
    figures: Mapping[str, Sequence[float]]

    def times(self, name: str) -> float:
        """Return how many times the best of all controllers one takes, by median or worst, whichever is more."""
        return max(self.figures[name][place] / min(each[place] for each in self.figures.values()) for place in range(2))

    def is_above(self, name: str) -> bool:
        """Return whether a controller exceeds a bound."""
        limited = self.situation.limit == LIMITS[1]
        return self.times(name) > BOUND or (limited and self.figures[name][2] > MOST_REQUESTS)

    def __str__(self) -> str:
        texts = (f"{name} {each[0]:.2f} / {each[1]:.2f}, {each[2]:.2f}" for name, each in self.figures.items())
        sign = "!" if self.is_above("new") else " "
        return f"{sign} {self.situation.name:<45} {'  '.join(texts)}  {self.times('new'):.2f} x"


def compact_table(rows: Sequence[Row]) -> str:
    """Return the table of the page: one row for an account, one column for calls at once."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        which = row.situation
        new, old = row.figures["new"], row.figures["old"]
        cell = f"{new[0]:.3g} / {new[1]:.3g} ({old[0]:.3g} / {old[1]:.3g}); {row.times('new'):.2f} ×; {new[2]:.2f}"
        lines.setdefault(f"{which.latency_s:g} s, {which.refused:.0%}, {which.limit}", []).append(cell)
    heads = ("account", *(f"{each} at once" if each else "nothing set" for each in AT_ONCE))
    return markdown_table(heads, ([name, *cells] for name, cells in lines.items()))


if __name__ == "__main__":
    main()
