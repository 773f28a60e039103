"""What travels along the wire: who is asked, for whom, what came back, and what is noted about it.

Free of the HTTP library, so that those who ask (agents, judges) import it at no cost.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from holodeck_action.llm.limits.pauses import Clocks, Deadline
from holodeck_action.record.facts import bounded
from holodeck_action.record.record import Usage

Kind = Literal["agent", "judge", "embedding"]


class WireError(Exception):
    """A model call that has no answer to hand out.

    Attributes:
        message: one sentence a person can act on.
        code: `connect`, `disconnected`, `timeout`, `rate_limited`, `malformed`, `truncated`, `stream_error`,
            `too_large`, `cassette_miss`, `cassette_unreadable`, `cassette_unwritable`, `budget_exhausted` or
            `price_unknown`.
        status: the HTTP status, where there was one.
        retry_worthy: whether the same call may succeed later.
    """

    def __init__(self, message: str, code: str, *, status: int | None = None, retry_worthy: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.retry_worthy = retry_worthy


@dataclass(frozen=True, slots=True)
class Account:
    """Who is asked and who pays; calls of one account share its connections and its limit.

    Attributes:
        provider: `openai`, `azure_openai`, `anthropic` or `ollama`.
        base_url: the address that the provider's client is given.
        key: the credential; empty where none is needed. It stands in no text.
    """

    provider: str
    base_url: str
    key: str = field(repr=False)

    @property
    def label(self) -> str:
        """Who is asked, for messages: provider and host, without path, user and password."""
        parts = urlsplit(self.base_url)
        host = parts.hostname or "?"
        try:
            port = "" if parts.port is None else f":{parts.port}"
        except ValueError:
            port = ""
        return f"{self.provider} ({host}{port})"


class Tokens(Struct, frozen=True):
    """Tokens of one call; None where the provider does not say. `cached` are those of `prompt` that cost less."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None


class CallRecord(Struct, frozen=True):
    """One model call as it went.

    Attributes:
        provider: the account's provider.
        model: the model that answered, or that was asked where the answer does not say; empty when unknown.
        status: the HTTP status of the last attempt; None when it had none.
        cached: whether the answer was paid for by an earlier call (a cassette, or the same call at the same moment).
        tokens: the provider's own count.
        latency_s: seconds from sending to the whole answer, waiting excluded; of the original call when cached.
        attempts: requests that were sent for this call, 0 when cached.
        cost_usd: what it cost, or would have cost when cached; None when the price is unknown.
        error: the code of the `WireError`, None when there was an answer.
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
    """Collects the model calls of one turn (or of one evaluation)."""

    def __init__(self) -> None:
        self._records: list[CallRecord] = []
        self.keys: set[str] = set()
        """What the recorded answers of these calls are found by."""
        self._sums: list[Usage] = []
        self.asked = False
        """Whether a part of an evaluation was answered by a call of this run."""
        self.kept_ms: float | None = None
        """How long the longest verdict of an earlier run took that stands for a part; None without one."""

    def add(self, record: CallRecord, key: str = "") -> None:
        """Note a call; `key` is what its recorded answer is found by, empty where none is kept."""
        self._records.append(record)
        if key:
            self.keys.add(key)

    def add_part(self, usage: Usage | None, kept_ms: float | None = None) -> None:
        """Note what a part of an evaluation took as one sum, so that it is the same whether asked or kept.

        Args:
            usage: None where no model was called.
            kept_ms: milliseconds that the verdict of an earlier run took; None for one of this run.
        """
        if usage is not None:
            self._sums.append(usage)
            self.asked = self.asked or kept_ms is None
        if kept_ms is not None:
            self.kept_ms = max(kept_ms, self.kept_ms or 0.0)

    @property
    def records(self) -> tuple[CallRecord, ...]:
        """The calls in the order in which they ended."""
        return tuple(self._records)

    def usage(self) -> Usage | None:
        """Return the sum over the calls that were answered; a part that is unknown for one of them is unknown.

        Returns:
            None when no call was answered.
        """
        answered = [record for record in self._records if record.status is not None and record.status < 300]
        found = [Usage(record.tokens.prompt, record.tokens.completion, record.cost_usd) for record in answered]
        found += self._sums
        if not found:
            return None
        prompt = _total(usage.prompt_tokens for usage in found)
        completion = _total(usage.completion_tokens for usage in found)
        return Usage(
            prompt_tokens=None if prompt is None else bounded(int(prompt)),
            completion_tokens=None if completion is None else bounded(int(completion)),
            cost_usd=bounded(_total(usage.cost_usd for usage in found)),
        )

    def working_ms(self) -> float | None:
        """Return how long the answered calls took together, in milliseconds; None when no call was answered.

        Each counts to a tenth of a millisecond, as recordings keep it: a replay gives the same sum.
        """
        answered = [record for record in self._records if record.status is not None and record.status < 300]
        return bounded(math.fsum(round(1000 * record.latency_s, 1) for record in answered)) if answered else None


class CallContext(Struct, frozen=True):
    """For whom a call is made.

    Attributes:
        kind: what it is for.
        repeat: the trial's index; trials are asked again, so it is part of a recorded call's key.
        deadline: until when an answer is of use; None without a limit.
        meter: where the call is noted.
        sample: which of several answers of one model to one question this is; each is asked for, so it is part of a
            recorded call's key.
        stand_in: whether another model can be asked instead: a rate limit is then met as often as other trouble.
    """

    kind: Kind
    repeat: int
    deadline: Deadline | None
    meter: Meter
    sample: int = 0
    stand_in: bool = False


CALL: ContextVar[CallContext] = ContextVar("CALL")
"""Set by who asks, read by the wire; a call without one counts as the agent's, first trial, without a deadline."""


@dataclass(frozen=True, slots=True)
class Post:
    """What is posted to a model's service.

    Attributes:
        url: where to, without user and password.
        headers: by their names in lower case.
        content: the body.
        document: the body as a JSON value; None when it is none.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)
    content: bytes
    document: Any


class Call(Struct):
    """One request on its way; `attempts` counts how often it was sent, `lost` how many of these have no answer.

    Attributes:
        account: who is asked.
        request: what is sent.
        context: for whom.
        key: what a recorded answer is found by.
        clocks: those that stand still while it waits its turn.
        given_up: whether its account has refused everything for so long that nobody waits for it any longer.
        paced: whether its account is asked at a rate that its refusals have told.
        place: place in the queue of its account; a call that is sent again keeps it. None before the first time.
    """

    account: Account
    request: Post
    context: CallContext
    key: str = ""
    clocks: Clocks = msgspec.field(default_factory=Clocks)
    given_up: bool = False
    paced: bool = False
    place: int | None = None
    attempts: int = 0
    lost: int = 0


class Answer(Struct, frozen=True):
    """A whole HTTP answer.

    Attributes:
        status: the HTTP status.
        headers: their names in lower case, without those of framing and compression.
        body: unpacked; empty where only the payload was kept.
        payload: a JSON value, a list of them for a stream of events, None when it is neither.
        latency_s: seconds from sending to the last byte.
        cached: see `CallRecord.cached`.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    payload: Any
    latency_s: float
    cached: bool = False


Link = Callable[[Call], Awaitable[Answer]]
"""One member of the chain: answers a call itself or asks the next. It raises WireError."""


def _total(values: Iterable[float | None]) -> float | None:
    known = list(values)
    # Calls end in any order, which must not show in the last digit.
    return None if None in known else math.fsum(value for value in known if value is not None)
