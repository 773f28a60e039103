"""The data types of model calls: account, context, request, answer, and the record of a call.

This module does not import the HTTP library, so that agents and judges can import it cheaply.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from holodeck_action.llm.limits.pauses import Clocks, Deadline
from holodeck_action.record.facts import within_bounds
from holodeck_action.record.record import Usage

Kind = Literal["agent", "user", "judge", "embedding"]


class WireError(Exception):
    """A model call that got no answer.

    Attributes:
        message: one sentence with the problem and a remedy.
        code: `connect`, `disconnected`, `timeout`, `rate_limited`, `malformed`, `truncated`, `stream_error`,
            `too_large`, `cassette_miss`, `cassette_unreadable`, `cassette_unwritable`, `budget_exhausted` or
            `price_unknown`.
        status: the HTTP status; None if no response arrived.
        retry_worthy: whether the same call may succeed later.
    """

    def __init__(self, message: str, code: str, *, status: int | None = None, retry_worthy: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.retry_worthy = retry_worthy


class Account(Struct, frozen=True):
    """A model service with the API key used for it. All calls of an account share its connections and its rate limit.

    Attributes:
        provider: the provider's name in agent.yaml, such as `openai`.
        base_url: the URL to which requests are sent.
        key: the API key; empty if no key is needed. `repr` does not show it.
    """

    provider: str
    base_url: str
    key: str

    def __repr__(self) -> str:
        return f"Account({self.provider!r}, {self.base_url!r})"

    @property
    def label(self) -> str:
        """The provider and host for messages, without path, user and password."""
        parts = urlsplit(self.base_url)
        host = parts.hostname or "?"
        try:
            port = "" if parts.port is None else f":{parts.port}"
        except ValueError:
            port = ""
        return f"{self.provider} ({host}{port})"


class Tokens(Struct, frozen=True):
    """The token counts of one call; each is None if the provider does not report it.

    Attributes:
        prompt: number of tokens of the prompt.
        completion: number of tokens of the answer.
        cached: number of tokens in `prompt` that the provider read from its cache at a lower price.
        reasoning: number of tokens in `completion` that the model spent on thinking.
    """

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    reasoning: int | None = None


class CallRecord(Struct, frozen=True):
    """The outcome of one model call.

    Attributes:
        provider: the account's provider.
        model: name of the model that answered, or of the requested model if the answer does not name one; empty if
            unknown.
        status: the HTTP status of the last attempt; None if it got no response.
        cached: whether the answer was not paid for again, because it comes from a cassette, a cache or an equal call in
            progress.
        tokens: the token counts reported by the provider.
        latency_s: seconds from sending to the complete answer, excluding time in queues; for a cached answer, the
            seconds of the original call.
        attempts: number of requests sent for this call; 0 if cached.
        cost_usd: the cost of the call, or of the original call if cached; None if the price is unknown.
        error: the code of the `WireError`; None if there was an answer.
    """

    provider: str
    model: str
    status: int | None
    cached: bool
    tokens: Tokens
    latency_s: float
    attempts: int
    cost_usd: float | None
    error: str | None = None


class Meter:
    """Collects the model calls of one turn or one evaluation."""

    def __init__(self) -> None:
        self._records: list[CallRecord] = []
        self.keys: set[str] = set()
        """Cache keys of the calls."""
        self._sums: list[Usage] = []
        self.asked = False
        """Whether this run called a model for any part of the evaluation; if not, all verdicts are reused."""
        self.kept_ms: float | None = None
        """Milliseconds of the slowest verdict reused from an earlier run; None if none was reused."""

    def add(self, record: CallRecord, key: str = "") -> None:
        """Add a call. `key` is its cache key, or an empty string if its answer is not stored."""
        self._records.append(record)
        if key:
            self.keys.add(key)

    def add_part(self, usage: Usage | None, kept_ms: float | None = None) -> None:
        """Add the summed usage of one verdict, new or reused, so that both give the same totals.

        Args:
            usage: the usage of the verdict; None if no model was called.
            kept_ms: milliseconds that a reused verdict took in an earlier run; None if the verdict was made in this
                run.
        """
        if usage is not None:
            self._sums.append(usage)
            self.asked = self.asked or kept_ms is None
        if kept_ms is not None:
            self.kept_ms = max(kept_ms, self.kept_ms or 0.0)

    @property
    def records(self) -> tuple[CallRecord, ...]:
        """The records of the calls, in the order in which the calls ended."""
        return tuple(self._records)

    def usage(self) -> Usage | None:
        """Return the summed usage of the answered calls; a number that is unknown for one call is unknown in the sum.

        Returns:
            None if no call was answered.
        """
        answered = [record for record in self._records if record.status is not None and record.status < 300]
        found = [Usage(record.tokens.prompt, record.tokens.completion, record.cost_usd) for record in answered]
        return sum_usages([*found, *self._sums])

    def working_ms(self) -> float | None:
        """Return the total time of the answered calls in milliseconds; None if no call was answered.

        Each time is rounded to 0.1 ms, the precision of recordings, so that a replay gives the same sum.
        """
        answered = [record for record in self._records if record.status is not None and record.status < 300]
        return within_bounds(math.fsum(round(1000 * record.latency_s, 1) for record in answered)) if answered else None


class CallContext(Struct, frozen=True):
    """The purpose and the limits of a call.

    Attributes:
        kind: the purpose of the call.
        repeat: index of the trial. It is part of the cache key, because every trial calls the model again.
        deadline: the time after which the answer is useless; None if there is no limit.
        meter: collects the records of calls.
        sample: index of the answer if a panel calls one model several times with the same question; part of the cache
            key.
        has_fallback: whether a fallback model exists. If it does, a rate-limited call is retried only as often as other
            failed calls.
        required: whether nothing can take the place of the answer. If so, a call to a server that is away is retried
            until its deadline, and the run ends when the server stays away.
        fresh: whether the answer must be the model's own now, not one from a cache of earlier runs.
    """

    kind: Kind
    repeat: int
    deadline: Deadline | None
    meter: Meter
    sample: int = 0
    has_fallback: bool = False
    required: bool = True
    fresh: bool = False


CALL: ContextVar[CallContext] = ContextVar("CALL")
"""The context of the current call, set by the caller. Without it a call counts as the agent's, in the first trial,
without a deadline.
"""


def judge_context() -> CallContext:
    """Return the context of the current call of a judge."""
    return CALL.get(CallContext("judge", 0, None, Meter()))


@contextmanager
def use_context(context: CallContext) -> Iterator[None]:
    """Within the block, calls have this context."""
    token = CALL.set(context)
    try:
        yield
    finally:
        CALL.reset(token)


class HttpRequest(Struct, frozen=True):
    """A request to a model's service.

    Attributes:
        url: the URL, without user and password.
        headers: header values by lower-case name.
        content: the body.
        document: the body as a JSON value; None if it is not JSON.
        alternatives: returns other requests with the same meaning, such as to another API of the service; a replay
            answers the first of them that the recording has instead. None if there are none.
    """

    url: str
    headers: Mapping[str, str]
    content: bytes
    document: Any
    alternatives: Callable[[], Iterator[HttpRequest]] | None = None

    def __repr__(self) -> str:
        return f"HttpRequest({self.url!r}, {len(self.content)} bytes)"


class Call(Struct):
    """A call in progress.

    Attributes:
        account: the account whose key is used.
        request: the HTTP request.
        context: purpose and limits of the call.
        key: the cache key.
        clocks: the time limits that are paused while the call waits in a queue.
        given_up: whether this call no longer waits for the account, which has refused all calls, or been away, for too
            long.
        held: whether the account is away or refuses everything, so that it holds calls back.
        row: number of refusals of the account in a row that no limit explains, after the last attempt; many before.
        limited: set while a limit is kept that explains the account's refusals; None before the first answer.
        queue_position: position in the account's queue, kept across retries; None before the first attempt.
        attempts: number of times that the request was sent.
        lost: number of these requests that got no answer.
    """

    account: Account
    request: HttpRequest
    context: CallContext
    key: str = ""
    clocks: Clocks = msgspec.field(default_factory=Clocks)
    given_up: bool = False
    held: bool = False
    row: int = 100
    limited: asyncio.Event | None = None
    queue_position: int | None = None
    attempts: int = 0
    lost: int = 0


class Answer(Struct, frozen=True):
    """A complete HTTP response.

    Attributes:
        status: the HTTP status.
        headers: pairs of lower-case name and value, without headers about framing and compression.
        body: the decompressed body; empty if only the payload was stored.
        payload: the body as a JSON value, or as a list of JSON values if it is a stream of events; None if it is
            neither.
        latency_s: seconds from sending the request to receiving the last byte.
        cached: see `CallRecord.cached`.
        changes: one sentence for each setting of the request that the service refused and that was changed therefore.
        alternative: which of the request's `alternatives` it answers; None if it answers the request itself.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    payload: Any
    latency_s: float
    cached: bool = False
    changes: tuple[str, ...] = ()
    alternative: HttpRequest | None = None


Link = Callable[[Call], Awaitable[Answer]]
"""One link of the wire's chain: answers a call or passes it to the next link. Raises WireError if there is no answer.
"""


def sum_usages(usages: Sequence[Usage]) -> Usage | None:
    """Return the sum of usages; None if there are none. A number that is unknown in one of them is unknown."""
    if not usages:
        return None
    prompt = _total(usage.prompt_tokens for usage in usages)
    completion = _total(usage.completion_tokens for usage in usages)
    return Usage(
        prompt_tokens=None if prompt is None else within_bounds(int(prompt)),
        completion_tokens=None if completion is None else within_bounds(int(completion)),
        cost_usd=within_bounds(_total(usage.cost_usd for usage in usages)),
    )


def _total(values: Iterable[float | None]) -> float | None:
    known = list(values)
    # Calls end in any order, but the sum must not depend on the order.
    return None if None in known else math.fsum(value for value in known if value is not None)
