"""The budget of a run. The estimated usage of a call is reserved before the call, and replaced by the actual usage
afterwards.

The estimate is the sum of three token counts, priced at list price: the UTF-8 bytes of the request divided by 4 and
rounded up, a fixed number for each image, and the maximum tokens of the answer. A call that does not fit into the
remaining budget waits for calls in progress, which usually use less than reserved. If it still does not fit, this call
and all later calls are refused, and the run ends.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.llm.calls import Answer, Call, Link, Tokens, WireError
from holodeck_action.llm.model_facts import known_model
from holodeck_action.llm.usage import Price, record_of

EXHAUSTED = "budget_exhausted"
"""Code of the `WireError` for a call that the budget refuses."""
UNPRICED = "price_unknown"
"""Code of the `WireError` for a call with unknown price if the budget is in US dollars."""

BYTES_PER_TOKEN = 4
IMAGE_TOKENS = 5_000
"""Tokens reserved for an image, more than current models of OpenAI and Anthropic use for a large one."""
COMPLETION_GUESS = 4_096
"""Tokens reserved for an answer without a token limit."""

_LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
_SLACK_USD = 1e-12
"""Tolerance for sums of floats, so that an amount that fits exactly is accepted."""


class Amount(Struct, frozen=True):
    """An amount of usage: tokens of prompt and answer together, and US dollars (0.0 if there is no budget in US
    dollars).
    """

    tokens: int
    cost_usd: float = 0.0


class Budget:
    """A limit on the total usage of all calls that share it, in US dollars, in tokens, or both.

    It is not bound to an event loop, so that consecutive suites can share it.
    """

    def __init__(self, *, max_cost_usd: float | None = None, max_tokens: int | None = None) -> None:
        """Create an unused budget; a limit of 0 refuses every call with a cost."""
        self.max_cost_usd = max_cost_usd
        self.max_tokens = max_tokens
        self._spent_usd = 0.0
        self._spent_tokens = 0
        self._calls = 0
        self._reserved: list[Amount] = []
        self._queue: deque[tuple[Amount, asyncio.Future[bool]]] = deque()
        self._refusal: str | None = None
        self._on_refusal: Callable[[str], None] | None = None

    @property
    def spent_amount(self) -> Amount:
        """The usage of completed calls."""
        return Amount(self._spent_tokens, self._spent_usd)

    @property
    def reserved_amount(self) -> Amount:
        """The usage reserved for calls in progress."""
        held = self._reserved
        return Amount(sum(amount.tokens for amount in held), math.fsum(amount.cost_usd for amount in held))

    @property
    def refusal(self) -> str | None:
        """The reason why further calls are refused, in one sentence; None while calls are accepted."""
        return self._refusal

    @contextmanager
    def notify_refusal(self, on_refusal: Callable[[str], None]) -> Iterator[None]:
        """Within the block, call `on_refusal` with the reason when the budget is used up, before the first call is
        refused.
        """
        self._on_refusal = on_refusal
        try:
            if self._refusal is not None:
                on_refusal(self._refusal)
            yield
        finally:
            self._on_refusal = None

    async def reserve(self, amount: Amount) -> None:
        """Reserve an amount, waiting if necessary; waiting calls are served in order.

        `replace_reservation` must be called once for each reservation.

        Raises:
            WireError: `budget_exhausted`: too little is left, and no call in progress could free more.
        """
        if self._refusal is None and not self._queue:
            if self._fits(amount):
                self._reserved.append(amount)
                return
            if not self._reserved:
                self._refuse(amount)
        if self._refusal is not None:
            raise WireError(self._refusal, EXHAUSTED)
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._queue.append((amount, turn))
        try:
            is_reserved = await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                self.replace_reservation(amount, None)
            else:
                turn.cancel()
                self._wake()
            raise
        if not is_reserved:
            raise WireError(self._refusal or "the budget is used up", EXHAUSTED)

    def replace_reservation(self, reserved: Amount, usage: Amount | None) -> None:
        """Replace a reservation of the amount `reserved` by the actual usage, which is None if the call was not made.

        Raises:
            ValueError: no such amount is reserved.
        """
        self._reserved.remove(reserved)
        if usage is not None:
            self._spend(usage)
        self._wake()

    def charge(self, usage: Amount) -> None:
        """Count usage without a reservation; once it exceeds the budget, further calls are refused."""
        self._spend(usage)
        beyond = self._exceeds_usd(0.0) or (self.max_tokens is not None and self._spent_tokens > self.max_tokens)
        if beyond and self._refusal is None:
            self._refuse(None)
        self._wake()

    def _fits(self, amount: Amount) -> bool:
        reserved = self.reserved_amount
        return not self._exceeds_usd(reserved.cost_usd + amount.cost_usd) and (
            self.max_tokens is None or self._spent_tokens + reserved.tokens + amount.tokens <= self.max_tokens
        )

    def _exceeds_usd(self, amount: float) -> bool:
        return self.max_cost_usd is not None and self._spent_usd + amount > self.max_cost_usd + _SLACK_USD

    def _spend(self, usage: Amount) -> None:
        self._calls += 1
        self._spent_tokens += usage.tokens
        self._spent_usd += usage.cost_usd

    def _wake(self) -> None:
        while self._queue:
            amount, turn = self._queue[0]
            if not turn.done():
                if self._refusal is None and not self._fits(amount):
                    if self._reserved:
                        return
                    self._refuse(amount)
                if self._refusal is None:
                    self._reserved.append(amount)
                turn.set_result(self._refusal is None)
            self._queue.popleft()

    def _refuse(self, amount: Amount | None) -> None:
        """Refuse all further calls: `amount` exceeds the remaining budget, or, if it is None, the budget is used up."""
        calls = f"{self._calls:,} {'call' if self._calls == 1 else 'calls'}"
        in_usd = self.max_cost_usd is not None and self._exceeds_usd(0.0 if amount is None else amount.cost_usd)
        whole = format_dollars(self.max_cost_usd or 0.0) if in_usd else f"{self.max_tokens:,} tokens"
        spent = format_dollars(self._spent_usd) if in_usd else f"{self._spent_tokens:,}"
        if amount is None:
            told = f"{calls} took {spent}"
        elif in_usd:
            told = f"{spent} of it spent in {calls}, and the next call may cost {format_dollars(amount.cost_usd)}"
        else:
            told = f"{spent} of them in {calls}, and the next call may use {amount.tokens:,}"
        self._refusal = f"the budget of {whole} is used up: {told}"
        if self._on_refusal is not None:
            self._on_refusal(self._refusal)


class BudgetLink:
    """The link of the wire that makes a call only if the call's estimated usage fits into the budget.

    In the chain it comes after cassettes and de-duplication, so that it receives only paid calls, and before the
    retries, so that one reservation covers all attempts of a call.
    """

    def __init__(self, next_link: Link, budget: Budget, price: Price) -> None:
        """Create the link.

        Args:
            next_link: the next link of the chain.
            budget: the budget, which other links may share.
            price: returns the price of tokens.
        """
        self._next = next_link
        self._budget = budget
        self._price = price

    async def __call__(self, call: Call) -> Answer:
        """Reserve the estimate, make the call, and count its usage.

        The estimate is used for answers without token counts, and for sent requests whose answer was lost
        (`Call.lost`), since the provider may have charged for them. An error of the provider costs nothing.

        Raises:
            WireError: `budget_exhausted`, `price_unknown`, or an error of the call.
        """
        tokens = estimate(call)
        reservation = Amount(_total_tokens(tokens), self._cost(call, tokens))
        # Other calls may keep their reservations for as long as they wait for a rate limit.
        with call.clocks.pause():
            await self._budget.reserve(reservation)
        spent: Amount | None = None
        try:
            answer = await self._next(call)
            spent = Amount(0) if answer.status >= 300 else self._actual_amount(call, answer, tokens, reservation)
            return answer
        finally:
            if call.lost:
                spent = _add_times(spent or Amount(0), reservation, call.lost)
            self._budget.replace_reservation(reservation, spent)

    def _cost(self, call: Call, tokens: Tokens) -> float:
        if self._budget.max_cost_usd is None:
            return 0.0
        cost = self._price(call.account, _model_name(call), tokens)
        if cost is None:
            raise WireError(
                (
                    f"the price of {call.account.provider} model {_model_name(call) or '(unknown)'} is unknown, so a "
                    "budget in US dollars cannot be enforced; give one in tokens (--max-tokens)"
                ),
                UNPRICED,
            )
        return cost

    def _actual_amount(self, call: Call, answer: Answer, guess: Tokens, reservation: Amount) -> Amount:
        record = record_of(call, answer, self._price)
        reported = record.tokens
        tokens = replace(
            reported,
            prompt=guess.prompt if reported.prompt is None else reported.prompt,
            completion=guess.completion if reported.completion is None else reported.completion,
        )
        if self._budget.max_cost_usd is None:
            return Amount(_total_tokens(tokens))
        costs = (record.cost_usd, self._price(call.account, _model_name(call), tokens), reservation.cost_usd)
        return Amount(_total_tokens(tokens), next(cost for cost in costs if cost is not None))


def estimate(call: Call) -> Tokens:
    """Return the tokens to reserve for a call."""
    data = call.request.content
    images, bulk = _count_images(call.request.document) if b"image" in data else (0, 0)
    prompt = -(-(len(data) - bulk) // BYTES_PER_TOKEN) + images * IMAGE_TOKENS
    return Tokens(prompt, 0 if call.context.kind == "embedding" else _answer_limit(call))


def text_tokens(text: str) -> int:
    """Return the estimated number of tokens of a text, as in `estimate`."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def format_dollars(value: float) -> str:
    """Format US dollars with two to four decimals (two to six below one cent), as few as the rounded value needs."""
    text = f"{value:.{4 if value >= 0.01 else 6}f}".rstrip("0")
    whole, _, part = text.partition(".")
    return f"${int(whole):,}.{part:0<2}"


def _answer_limit(call: Call) -> int:
    """Return the maximum tokens of the answer; a guess if the suite sets none."""
    document = call.request.document
    if not isinstance(document, Mapping):
        return COMPLETION_GUESS
    # Anthropic requires a limit: without one of the suite it is the model's own.
    most = known_model(call.account.provider, _model_name(call)).most_tokens or math.inf
    options = document.get("options")
    limits = [document.get(name) for name in _LIMITS]
    limits.append(options.get("num_predict") if isinstance(options, Mapping) else None)
    known = [limit for limit in limits if isinstance(limit, int) and 0 < limit < most]
    return max(known, default=COMPLETION_GUESS)


def _count_images(value: Any) -> tuple[int, int]:
    """Return the number of images in a request, and the total number of their characters."""
    if isinstance(value, list):
        found = [_count_images(item) for item in value]
    elif isinstance(value, Mapping):
        if value.get("type") in ("image_url", "input_image", "image"):
            return 1, sum(len(text) for text in _texts(value))
        found = [_count_images(item) for item in value.values()]
    else:
        return 0, 0
    return sum(images for images, _ in found), sum(bulk for _, bulk in found)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def _model_name(call: Call) -> str:
    document = call.request.document
    model = document.get("model") if isinstance(document, Mapping) else None
    return model if isinstance(model, str) else ""


def _total_tokens(tokens: Tokens) -> int:
    return (tokens.prompt or 0) + (tokens.completion or 0)


def _add_times(amount: Amount, added: Amount, factor: int) -> Amount:
    return Amount(amount.tokens + factor * added.tokens, amount.cost_usd + factor * added.cost_usd)
