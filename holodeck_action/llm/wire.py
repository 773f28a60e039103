"""The wire: the chain of links through which every model call passes, for all callers and providers.

    recording or cache → time limit → de-duplication → budget → refused settings → retries → limit of the account →
    network

Each link is a small callable (`calls.Link`). Answers with an HTTP status are returned to the caller unchanged,
including errors; if there is no answer, the chain raises `WireError`. Streams are read completely. The HTTP library is
imported with the first request that is sent, because recorded answers do not need it.
"""

from __future__ import annotations

import asyncio
import copy
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.llm.call_spans import call_span, describe_call
from holodeck_action.llm.calls import (
    CALL,
    Account,
    Answer,
    Call,
    CallContext,
    CallRecord,
    HttpRequest,
    Link,
    Meter,
    WireError,
)
from holodeck_action.llm.cassette.cassette import CacheKeys, LiveCalls, Recorder, Replay, Store
from holodeck_action.llm.cassette.documents import JsonFiles, JsonLinesFile
from holodeck_action.llm.cassette.recorded_calls import RecordedCalls
from holodeck_action.llm.known_rates import KnownRates
from holodeck_action.llm.learned import Learned
from holodeck_action.llm.limits.budget import Budget, BudgetLink
from holodeck_action.llm.limits.limits import AccountLimit
from holodeck_action.llm.limits.pauses import TimeLimit, clocks_around
from holodeck_action.llm.limits.window import Window
from holodeck_action.llm.refused_settings import RefusedSettings
from holodeck_action.llm.retries import Retries
from holodeck_action.llm.spans import Span
from holodeck_action.llm.usage import Price, error_record, record_of
from holodeck_action.record.record import ModelCalls
from holodeck_action.suite.hosts import is_public_url
from holodeck_action.text.redaction import Redactor

if TYPE_CHECKING:
    import httpx2

    from holodeck_action.llm.connections import Connections, Routes
    from holodeck_action.llm.network import TransportLender

CASSETTE = "cassette.jsonl"
"""Name of the file of recorded calls in its folder."""


class _CallInProgress(Struct, frozen=True):
    """A call in progress; `outcome` becomes None if the call was cancelled."""

    outcome: asyncio.Future[Answer | WireError | None]
    call: Call


class Dedupe:
    """The link that lets concurrent calls with the same key share one answer; only the first of them passes to the next
    link.

    If the first call fails, a waiting call with a later deadline is sent instead of sharing the failure. If the first
    call is cancelled, a waiting call takes over.
    """

    def __init__(self, next_link: Link) -> None:
        self._next = next_link
        self._under_way: dict[str, _CallInProgress] = {}

    async def __call__(self, call: Call) -> Answer:
        """Return the answer of an equal call in progress; otherwise make the call.

        Raises:
            WireError: the call got no answer.
        """
        deadline = call.context.deadline
        while (shared := self._under_way.get(call.key)) is not None:
            # While the first call waits in a queue, the clocks of this call pause, too.
            with shared.call.clocks.join(call.clocks):
                outcome = await asyncio.shield(shared.outcome)
            of_first = shared.call.context.deadline
            more_time = of_first is not None and (deadline is None or deadline.seconds_left() > of_first.seconds_left())
            if isinstance(outcome, WireError):
                if not more_time:
                    raise outcome
            elif outcome is not None and (outcome.status < 400 or not more_time):
                return replace(outcome, cached=outcome.status < 400)
        future: asyncio.Future[Answer | WireError | None] = asyncio.get_running_loop().create_future()
        self._under_way[call.key] = _CallInProgress(future, call)
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
    """Settings of the wire.

    Attributes:
        mode: `live` calls models; `record` also stores the answers in `folder`; `replay` answers from `folder` only.
        folder: the folder of recorded calls; required to record and to replay.
        cache: folder in which answers and rates are kept between runs; None to keep nothing. Not used by `replay`.
        ttl_s: seconds for which a cached answer is valid; None if there is no limit.
        max_in_flight: maximum of concurrent requests per account.
        start_in_flight: concurrent requests per account at the start, which grow while nothing is refused; None for
            `max_in_flight`.
        max_retries: maximum number of retries, not counting those after refusals by a rate limit.
        rate_limit_wait_s: maximum seconds that a call waits for its account's rate limit.
        longest_outage_s: seconds without any answer after which an account is given up.
    """

    mode: Literal["live", "record", "replay"] = "live"
    folder: Path | None = None
    cache: Path | None = None
    ttl_s: float | None = None
    max_in_flight: int = 64
    start_in_flight: int | None = None
    max_retries: int = 6
    rate_limit_wait_s: float = 300.0
    longest_outage_s: float = 60.0

    def __post_init__(self) -> None:
        if self.mode != "live" and self.folder is None:
            raise ValueError(f"mode {self.mode} needs a folder")
        if self.max_in_flight < 1 or self.max_retries < 0:
            raise ValueError("max_in_flight must be at least 1, max_retries at least 0")


class Counts(Struct):
    """Number, tokens and cost of a run's calls.

    Attributes:
        calls: number of all calls.
        cached: number of calls whose answer was not paid for again.
        failed: number of calls without an answer.
        requests: number of requests sent.
        tokens: tokens of prompts and answers of the paid calls; None if an answer does not report them.
        cost_usd: cost of the paid calls in US dollars; None if the cost of a call is unknown.
        notices: how requests were changed because services refused them, one sentence each.
    """

    calls: int = 0
    cached: int = 0
    failed: int = 0
    requests: int = 0
    tokens: int | None = 0
    cost_usd: float | None = 0.0
    notices: tuple[str, ...] = ()

    def add(self, record: CallRecord) -> None:
        """Count a completed call."""
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
    """Makes all model calls of a run; `close` it in the event loop in which it was used."""

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
    ) -> None:
        """Create the wire; nothing is opened or read yet.

        Args:
            settings: settings of the wire.
            monotonic: returns monotonic seconds.
            pause: waits for a number of seconds.
            uniform: returns a random number between two numbers.
            network: transport that sends the requests; None to use the real network.
            redactor: masks secrets in messages, and declared ones in stored calls and in keys.
            price: returns the price of tokens; unknown by default.
            now: returns the current time in UTC.
            proxies: proxy URLs by scheme, and under `no` the hosts without a proxy; None to read the environment.
            budgets: the budgets; a call is made only if it fits into each of them.
        """
        self._sharers = 1
        self.on_outage: Callable[[str], None] = lambda reason: None
        """Called with the reason when an account is given up because it is away."""
        self._settings = settings
        self._monotonic, self._pause, self._uniform, self._now = monotonic, pause, uniform, now
        self._network = network
        self._redactor = redactor or Redactor(())
        # What is recorded must not depend on what a version takes for a key.
        self._declared = self._redactor.declared
        self._price = price
        self._proxies = proxies
        self._budgets = tuple(budgets)
        self._routes: Routes | None = None
        self._connections: list[Connections] = []
        self._limits: dict[Account, AccountLimit] = {}
        self._rates = KnownRates(settings.cache, now)
        self._live: LiveCalls | None = None
        self._recorded: RecordedCalls | None = None
        self._cache: RecordedCalls | None = None
        self._chain = CacheKeys(
            self._store(), self._declared, persistent=settings.mode != "live" or settings.cache is not None
        )
        self.counts = Counts()
        self.learned = Learned()

    def sibling(self) -> Wire:
        """Return a wire that counts its calls separately and shares everything else with this wire. Closing it leaves
        the shared connections open; both wires must be closed.
        """
        other = copy.copy(self)
        other._connections, other._limits = [], {}
        other.counts = Counts()
        return other

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices for the reader of the record, one sentence each."""
        trouble = None if self._live is None else self._live.trouble
        unused = () if trouble is None else (f"the cache of model answers could not be used: {trouble}",)
        return (*unused, *dict.fromkeys((*sorted(self.counts.notices), *self.learned.notices)))

    @property
    def model_calls(self) -> ModelCalls:
        """Number, tokens and cost of the calls so far, for the record."""
        counts = self.counts
        return ModelCalls(counts.calls, counts.cached, counts.failed, counts.requests, counts.tokens, counts.cost_usd)

    @property
    def limits_cost(self) -> bool:
        """Whether a budget in US dollars limits the calls."""
        return self._settings.mode != "replay" and any(budget.max_cost_usd is not None for budget in self._budgets)

    def redact(self, text: str) -> str:
        """Return a text without the run's secrets."""
        return self._redactor.text(text)

    def redact_declared(self, text: str) -> str:
        """Return a text that a model gets without the run's declared secrets."""
        return self._declared.text(text)

    async def answer(self, account: Account, request: HttpRequest) -> Answer:
        """Return the answer to a request, whatever its status, and record the call.

        Raises:
            WireError: there is no answer.
        """
        context = CALL.get(None) or CallContext("agent", 0, None, Meter())
        call = Call(account, request, context)
        self.counts.calls += 1
        with call_span(call) as trace_span:
            try:
                answer = await self._chain(call)
            except WireError as error:
                self._note_call(call, error_record(call, error.code, error.status), None, trace_span)
                raise
            except asyncio.CancelledError:
                self._note_call(call, error_record(call, "cancelled", None), None, trace_span)
                raise
            self._note_call(call, record_of(call, answer, self._price), answer, trace_span)
            self.counts.notices = tuple(dict.fromkeys((*self.counts.notices, *answer.changes)))
            return answer

    @property
    def _entries(self) -> RecordedCalls | None:
        return self._recorded or self._cache

    def entry_digest(self, key: str) -> str | None:
        """Return the digest of a call's recorded or cached answer; None if it is missing or unreadable."""
        return None if self._entries is None else self._entries.digest(key)

    def share(self, sharers: int) -> None:
        """Use a fixed share of each account's limits, because as many processes as `sharers` use the accounts."""
        self._sharers = sharers
        for limit in self._limits.values():
            limit.share(sharers)

    async def close(self) -> None:
        """Close all connections, and finish the recording."""
        if self._recorded is not None:
            self._recorded.close()
        for account, limit in self._limits.items():
            await limit.close()
            self._rates.store(account, limit.window.rate)
        for connections in self._connections:
            await connections.close()
        self._limits.clear()
        self._connections.clear()

    def _store(self) -> Store:
        settings = self._settings
        if settings.mode == "replay":
            assert settings.folder is not None
            return Replay(self._cassette(settings.folder), self._declared)
        link: Link = Retries(
            self._send,
            settings.max_retries,
            longest_wait_s=settings.rate_limit_wait_s,
            pause=self._pause,
            uniform=self._uniform,
            now=self._now,
        )
        link = RefusedSettings(link)
        for budget in self._budgets:
            link = BudgetLink(link, budget, self._price)
        self._cache = None if settings.cache is None else RecordedCalls(JsonFiles(settings.cache), self._declared)
        self._live = LiveCalls(_with_deadline(Dedupe(link)), self._cache, settings.ttl_s, self._now)
        if settings.mode == "live":
            return self._live
        assert settings.folder is not None
        return Recorder(self._live, self._cassette(settings.folder), self._now)

    def _cassette(self, folder: Path) -> RecordedCalls:
        self._recorded = RecordedCalls(JsonLinesFile(folder / CASSETTE, folder), self._declared)
        return self._recorded

    async def _send(self, call: Call) -> Answer:
        limit = self._limits.get(call.account)
        if limit is None:
            from holodeck_action.llm.network import Network

            network: Link = Network(call.account, self._transport_lender(call.account), self._monotonic)
            settings = self._settings
            start = settings.start_in_flight
            # A server on this machine or near it is not for one run alone.
            grows = start is None or is_public_url(call.account.base_url)
            window = Window(
                settings.max_in_flight if grows or start is None else start,
                settings.rate_limit_wait_s,
                start=start,
                rate=self._rates.read(call.account),
                longest_outage_s=settings.longest_outage_s,
            )
            window.share(self._sharers)
            limit = self._limits[call.account] = AccountLimit(
                network,
                call.account.label,
                window,
                monotonic=self._monotonic,
                pause=self._pause,
                now=self._now,
                on_outage=lambda reason: self.on_outage(reason),
            )
        return await limit(call)

    def _transport_lender(self, account: Account) -> TransportLender:
        network = self._network
        if network is not None:
            return lambda: nullcontext(network)
        if self._routes is None:
            from holodeck_action.llm.connections import Routes

            self._routes = Routes(self._proxies)
        connections = self._routes.connections(account.base_url)
        self._connections.append(connections)
        return connections.borrow

    def _note_call(self, call: Call, record: CallRecord, answer: Answer | None, trace_span: Span) -> None:
        self.counts.add(record)
        call.context.meter.add(record, "" if self._entries is None else call.key)
        describe_call(trace_span, call, record, answer)


def _with_deadline(next_link: Link) -> Link:
    """Return a link that ends a call at its deadline."""

    async def answer(call: Call) -> Answer:
        deadline = call.context.deadline
        try:
            async with TimeLimit(None if deadline is None else max(0.0, deadline.seconds_left())):
                call.clocks = clocks_around(deadline)
                return await next_link(call)
        except TimeoutError:
            raise WireError(
                f"{call.account.label} did not answer within the time limit of this call", "timeout"
            ) from None

    return answer
