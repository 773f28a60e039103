"""Retries of failed calls, within the caller's deadline.

Waiting for a rate limit does not count against the caller's time limits: the clocks of turns, cases and metrics pause,
and the session's slot is lent to another session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

from holodeck_action.llm.calls import Answer, Call, Link, WireError
from holodeck_action.llm.limits.pauses import lend_slot
from holodeck_action.llm.limits.window import FIRST_BACKOFF_S, JITTER_FRACTION, MAX_AWAY_S, backoff_s
from holodeck_action.llm.outcomes import is_away, is_retryable, is_throttled, retry_after

PATIENT_REFUSALS = 3
"""Number of refusals of one call after which the call waits longer than the provider requests."""
MAX_DOUBLINGS = 3
"""Number of refusals after these with which the additional wait grows; if all calls are refused, the account waits."""


class Retries:
    """The link that retries failed calls within their deadline, after a random back-off (full jitter) or the
    Retry-After.

    A call refused by a rate limit is retried until its total waiting time is used up. If the server is away, it is
    retried until its deadline, or until the account is given up; after other failures at most `max_retries` times. With
    `max_retries` 0 only calls refused by a rate limit are retried.

    Statuses 408, 409, 429 and 5xx are retried (`x-should-retry` overrides this), and so are lost connections and
    malformed or incomplete bodies. Errors that a retry cannot fix are not retried: an invalid key, no quota, an unknown
    model, a too long context, a content filter. The last answer is returned unchanged; if the last attempt has no
    answer, its WireError is raised.
    """

    def __init__(
        self,
        next_link: Link,
        max_retries: int,
        *,
        longest_wait_s: float,
        pause: Callable[[float], Awaitable[None]],
        uniform: Callable[[float, float], float],
        now: Callable[[], datetime],
    ) -> None:
        """Create the link.

        Args:
            next_link: the link that makes one attempt.
            max_retries: maximum number of retries, not counting those after refusals by a rate limit.
            longest_wait_s: maximum seconds that a call waits in total after refusals.
            pause: waits for a number of seconds.
            uniform: returns a random number between two numbers.
            now: returns the current time, for dates in Retry-After.
        """
        self._next = next_link
        self._most = max_retries
        self._longest_wait_s = longest_wait_s
        self._pause, self._uniform, self._now = pause, uniform, now

    async def __call__(self, call: Call) -> Answer:
        """Make the call until it succeeds, cannot succeed, or reaches its limits.

        Raises:
            WireError: the last attempt got no answer.
        """
        faults = refusals = 0
        waited = 0.0
        while True:
            outcome: Answer | WireError
            try:
                outcome = await self._next(call)
                worth = is_retryable(outcome)
            except WireError as error:
                outcome, worth = error, error.retry_worthy
            answer = outcome if isinstance(outcome, Answer) else None
            if answer is not None and is_throttled(answer):
                refusals += 1
                # The wait grows only while the account answers nothing else.
                wait = refusal_wait(min(refusals, max(1, call.row)), retry_after(answer, self._now()), self._uniform)
                if call.limited is not None and call.limited.is_set():
                    # The limit that refused this call is kept now, so it need not wait longer than others.
                    wait = min(wait, refusal_wait(1, None, self._uniform))
                waited += wait
                enough = call.context.has_fallback and refusals > self._most
                if enough or call.given_up or waited > self._longest_wait_s:
                    return answer
                async with lend_slot(call.clocks):
                    await self._wait(wait, call.limited)
                continue
            wait = self._backoff_s(faults, answer)
            lasts = self._most > 0 and is_away(outcome) and _may_last(call)
            if lasts:
                # The account itself waits for a server that is away.
                wait = 0.0 if call.held else min(wait, MAX_AWAY_S)
            if not worth or (faults >= self._most and not lasts) or _is_too_late(call, wait):
                if isinstance(outcome, WireError):
                    raise outcome
                return outcome
            faults += 1
            await self._pause(wait)

    async def _wait(self, seconds: float, limited: asyncio.Event | None) -> None:
        """Wait, at most until the account's limit is known and kept, which ends the waits of all refused calls."""
        if limited is None or limited.is_set():
            await self._pause(seconds)
            return
        waits = [asyncio.ensure_future(self._pause(seconds)), asyncio.create_task(limited.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _backoff_s(self, fault_count: int, answer: Answer | None) -> float:
        requested_s = retry_after(answer, self._now()) if answer is not None and answer.status >= 400 else None
        return (
            self._uniform(0.0, backoff_s(fault_count + 1))
            if requested_s is None
            else _add_jitter(requested_s, self._uniform)
        )


def _may_last(call: Call) -> bool:
    """Return whether a call is retried until its deadline while the server is away."""
    return call.context.deadline is not None and call.context.required and not call.given_up


def refusal_wait(refusal_count: int, requested_s: float | None, uniform: Callable[[float, float], float]) -> float:
    """Return the seconds to wait after a refusal.

    Args:
        refusal_count: number of refusals of the call so far, at least 1.
        requested_s: waiting time in seconds that the provider requests; None if the header is missing or implausible.
        uniform: returns a random number between two numbers.
    """
    if requested_s is None:
        return uniform(0.0, backoff_s(refusal_count))
    more = (
        uniform(0.0, backoff_s(min(refusal_count - PATIENT_REFUSALS, MAX_DOUBLINGS)))
        if refusal_count > PATIENT_REFUSALS
        else 0.0
    )
    return _add_jitter(requested_s, uniform) + more


def _add_jitter(requested_s: float, uniform: Callable[[float, float], float]) -> float:
    return requested_s + uniform(0.0, JITTER_FRACTION * max(requested_s, FIRST_BACKOFF_S))


def _is_too_late(call: Call, wait_s: float) -> bool:
    deadline = call.context.deadline
    return deadline is not None and wait_s >= deadline.seconds_left()
