"""The wire: one chain that every model call passes, whoever makes it and whichever provider answers.

    recording or cache → time limit → de-duplication → budget → retries → limit of the account → network

Each link is a small callable (`calls.Link`). Answers with an HTTP status are handed to whoever asks as they are,
errors too; where there is no answer the chain raises `WireError`. Streams are read whole. What sends is imported with
the first call that is sent: recorded answers need none of it.
"""

from __future__ import annotations

import asyncio
import copy
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.llm.calls import CALL, Account, Answer, Call, CallContext, CallRecord, Link, Meter, Post, WireError
from holodeck_action.llm.cassette.cassette import Keys, Live, Recorder, Replay, Store
from holodeck_action.llm.cassette.entries import Entries
from holodeck_action.llm.cassette.tapes import Files, Tape
from holodeck_action.llm.known_rates import KnownRates
from holodeck_action.llm.limits.budget import Budget, Losses, Spending
from holodeck_action.llm.limits.limits import AccountLimit
from holodeck_action.llm.limits.pauses import TimeLimit, clocks_around
from holodeck_action.llm.retries import Retries
from holodeck_action.llm.spans import Span
from holodeck_action.llm.traced import call_ended, call_span
from holodeck_action.llm.usage import Price, error_record, record_of
from holodeck_action.record.record import ModelCalls
from holodeck_action.text.redaction import Redactor

if TYPE_CHECKING:
    import httpx2

    from holodeck_action.llm.connections import Connections, Routes
    from holodeck_action.llm.limits.leases import Leases
    from holodeck_action.llm.network import Lends

CASSETTE = "cassette.jsonl"
"""The file of recorded calls in its folder."""


class _Shared(Struct, frozen=True):
    """A call under way; `outcome` becomes None when it was given up (cancelled) without one."""

    outcome: asyncio.Future[Answer | WireError | None]
    call: Call


class Dedupe:
    """The link that lets equal calls (same key) that meet share one answer; the first one makes it.

    Who has more time than the first one does not share its failure but tries again; a cancelled first call is
    taken over.
    """

    def __init__(self, next_link: Link) -> None:
        self._next = next_link
        self._under_way: dict[str, _Shared] = {}

    async def __call__(self, call: Call) -> Answer:
        """Answer with the call that is under way, else make it.

        Raises:
            WireError: what the call ended with.
        """
        deadline = call.context.deadline
        while (shared := self._under_way.get(call.key)) is not None:
            # Who is to wait for the first one's turn waits for its own.
            with shared.call.clocks.joined_by(call.clocks):
                outcome = await asyncio.shield(shared.outcome)
            of_first = shared.call.context.deadline
            more_time = of_first is not None and (deadline is None or deadline.left() > of_first.left())
            if isinstance(outcome, WireError):
                if not more_time:
                    raise outcome
            elif outcome is not None and (outcome.status < 400 or not more_time):
                return replace(outcome, cached=outcome.status < 400)
        future: asyncio.Future[Answer | WireError | None] = asyncio.get_running_loop().create_future()
        self._under_way[call.key] = _Shared(future, call)
        result: Answer | WireError | None = None
        try:
            result = await self._next(call)
            return result
        except WireError as error:
            result = error
            raise
        finally:
            del self._under_way[call.key]
            future.set_result(result)


class WireSettings(Struct, frozen=True):
    """How the wire works.

    Attributes:
        mode: `live` asks; `record` asks and stores in `folder`; `replay` answers from `folder` only.
        folder: where recorded calls are; needed to record and to replay.
        cache: where answers and the rates of accounts are kept between runs; None keeps none. Not used by `replay`.
        ttl_s: seconds for which a kept answer is used; None forever.
        max_in_flight: requests of one account at once, at most.
        max_retries: attempts after the first one, those after refusals for a rate limit excluded.
        rate_limit_wait_s: seconds that a call may wait for its account's rate limit.
    """

    mode: Literal["live", "record", "replay"] = "live"
    folder: Path | None = None
    cache: Path | None = None
    ttl_s: float | None = None
    max_in_flight: int = 64
    max_retries: int = 6
    rate_limit_wait_s: float = 300.0

    def __post_init__(self) -> None:
        if self.mode != "live" and self.folder is None:
            raise ValueError(f"mode {self.mode} needs a folder")
        if self.max_in_flight < 1 or self.max_retries < 0:
            raise ValueError("max_in_flight must be at least 1, max_retries at least 0")


class Counts(Struct):
    """What a run's calls came to: `cached` of `calls` were not paid for again, `requests` were sent.

    `tokens` (of prompts and answers) and `cost_usd` are those of the answers that were paid for; None once one of them
    does not tell.
    """

    calls: int = 0
    cached: int = 0
    failed: int = 0
    requests: int = 0
    tokens: int | None = 0
    cost_usd: float | None = 0.0

    def add(self, record: CallRecord) -> None:
        """Count a call that has ended."""
        self.requests += record.attempts
        self.cached += record.cached
        answered = record.error is None and record.status is not None and record.status < 400
        self.failed += not answered
        if not answered or record.cached:
            return
        counts = (record.tokens.prompt, record.tokens.completion)
        tokens = None if None in counts else sum(count or 0 for count in counts)
        self.tokens = None if self.tokens is None or tokens is None else self.tokens + tokens
        cost = record.cost_usd
        self.cost_usd = None if self.cost_usd is None or cost is None else self.cost_usd + cost


class Wire:
    """What all model calls of a run pass; `close` it in the loop in which it was used."""

    def __init__(
        self,
        settings: WireSettings,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        uniform: Callable[[float, float], float] = random.uniform,
        network: httpx2.AsyncBaseTransport | None = None,
        redactor: Redactor | None = None,
        price: Price = lambda account, model, tokens: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        proxies: Mapping[str, str] | None = None,
        budgets: Sequence[Budget] = (),
        leases: Leases | None = None,
    ) -> None:
        """Prepare; nothing is opened or read yet.

        Args:
            settings: how to work.
            monotonic: seconds.
            pause: waits for seconds.
            uniform: a random number between two.
            network: sends the requests; None for the real network.
            redactor: masks secrets in what is stored, and in keys.
            price: what tokens cost; by default unknown.
            now: the time of day, in UTC.
            proxies: proxy URLs by scheme, with `no`; None for those of the environment.
            budgets: what may be spent; a call needs room in each of them.
            leases: of accounts whose limits hold across processes; None where this one has them alone.
        """
        self._leases = leases
        self._settings = settings
        self._monotonic, self._pause, self._uniform, self._now = monotonic, pause, uniform, now
        self._network = network
        self._redactor = redactor or Redactor(())
        self._price = price
        self._proxies = proxies
        self._budgets = tuple(budgets)
        self._routes: Routes | None = None
        self._connections: list[Connections] = []
        self._limits: dict[Account, AccountLimit] = {}
        self._rates = KnownRates(settings.cache, now)
        self._live: Live | None = None
        self._recorded: Entries | None = None
        self._cache: Entries | None = None
        self._chain = Keys(self._store(), self._redactor, kept=settings.mode != "live" or settings.cache is not None)
        self.counts = Counts()

    def beside(self) -> Wire:
        """Return a wire for a run beside this one's: it shares all but connections and counts. Close both."""
        other = copy.copy(self)
        other._connections, other._limits = [], {}
        other.counts = Counts()
        return other

    @property
    def notices(self) -> tuple[str, ...]:
        """What the reader should know, each one sentence."""
        trouble = None if self._live is None else self._live.trouble
        return () if trouble is None else (f"the cache of model answers could not be used: {trouble}",)

    @property
    def model_calls(self) -> ModelCalls:
        """What the calls came to so far, for the record."""
        counts = self.counts
        return ModelCalls(counts.calls, counts.cached, counts.failed, counts.requests, counts.tokens, counts.cost_usd)

    @property
    def limits_cost(self) -> bool:
        """Whether a budget in US dollars limits the calls."""
        return self._settings.mode != "replay" and any(budget.max_cost_usd is not None for budget in self._budgets)

    def redact(self, text: str) -> str:
        """Return a text without the run's secrets."""
        return self._redactor.text(text)

    async def answer(self, account: Account, request: Post) -> Answer:
        """Return the answer to a request, whatever its status, and note how the call went.

        Raises:
            WireError: there is no answer.
        """
        context = CALL.get(None) or CallContext("agent", 0, None, Meter())
        call = Call(account, request, context)
        self.counts.calls += 1
        with call_span(call) as traced:
            try:
                answer = await self._chain(call)
            except WireError as error:
                self._note(call, error_record(call, error.code, error.status), None, traced)
                raise
            except asyncio.CancelledError:
                self._note(call, error_record(call, "cancelled", None), None, traced)
                raise
            self._note(call, record_of(call, answer, self._price), answer, traced)
            return answer

    @property
    def _kept(self) -> Entries | None:
        return self._recorded or self._cache

    def kept_digest(self, key: str) -> str | None:
        """Return the digest of the recorded or cached answer of a call; None where there is none to be read."""
        return None if self._kept is None else self._kept.digest(key)

    async def close(self) -> None:
        """Close all connections, and bring what was recorded into order."""
        if self._recorded is not None:
            self._recorded.close()
        for account, limit in self._limits.items():
            await limit.close()
            if self._leases is None:
                self._rates.keep(account, limit.rate)
        for connections in self._connections:
            await connections.close()
        self._limits.clear()
        self._connections.clear()

    def _store(self) -> Store:
        settings = self._settings
        if settings.mode == "replay":
            assert settings.folder is not None
            return Replay(self._cassette(settings.folder))
        link: Link = Retries(
            self._send,
            settings.max_retries,
            longest_wait_s=settings.rate_limit_wait_s,
            pause=self._pause,
            uniform=self._uniform,
            now=self._now,
        )
        for budget in self._budgets:
            link = Spending(link, budget, self._price)
        self._cache = None if settings.cache is None else Entries(Files(settings.cache), self._redactor)
        self._live = Live(_in_time(Dedupe(link)), self._cache, settings.ttl_s, self._now)
        if settings.mode == "live":
            return self._live
        assert settings.folder is not None
        return Recorder(self._live, self._cassette(settings.folder), self._now)

    def _cassette(self, folder: Path) -> Entries:
        self._recorded = Entries(Tape(folder / CASSETTE, folder), self._redactor)
        return self._recorded

    async def _send(self, call: Call) -> Answer:
        limit = self._limits.get(call.account)
        if limit is None:
            from holodeck_action.llm.network import Network

            network: Link = Network(call.account, self._lends(call.account), self._monotonic)
            kind: Callable[..., AccountLimit] = AccountLimit
            if self._leases is not None:
                from holodeck_action.llm.limits.leases import LeasedLimit

                kind = partial(LeasedLimit, self._leases.of(call.account))
            limit = self._limits[call.account] = kind(
                Losses(network) if self._budgets else network,
                call.account.label,
                self._settings.max_in_flight,
                monotonic=self._monotonic,
                pause=self._pause,
                now=self._now,
                longest_wait_s=self._settings.rate_limit_wait_s,
                rate=self._rates.read(call.account),
            )
        return await limit(call)

    def _lends(self, account: Account) -> Lends:
        network = self._network
        if network is not None:
            return lambda: nullcontext(network)
        if self._routes is None:
            from holodeck_action.llm.connections import Routes

            self._routes = Routes(self._proxies)
        connections = self._routes.connections(account.base_url)
        self._connections.append(connections)
        return connections.one

    def _note(self, call: Call, record: CallRecord, answer: Answer | None, traced: Span) -> None:
        self.counts.add(record)
        call.context.meter.add(record, "" if self._kept is None else call.key)
        call_ended(traced, call, record, answer)


def _in_time(next_link: Link) -> Link:
    """Return the link that ends a call when its answer is of no use any more."""

    async def answer(call: Call) -> Answer:
        deadline = call.context.deadline
        try:
            async with TimeLimit(None if deadline is None else max(0.0, deadline.left())):
                call.clocks = clocks_around(deadline)
                return await next_link(call)
        except TimeoutError:
            raise WireError(f"{call.account.label} did not answer in the time this call had", "timeout") from None

    return answer
