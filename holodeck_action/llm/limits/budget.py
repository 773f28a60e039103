"""What a run may spend: room is reserved before a call is made, and what it took is counted when it has ended.

A reservation is an estimate: the request's characters (bytes of UTF-8, so that scripts of more than one byte count
for more) divided by 4 and rounded up, a flat count for each image, and the most tokens that the answer may have, at
list price. A call that does not fit into what is left waits for the calls under way, which mostly take less than they
reserved; if it does not fit then, it is refused, and so is every later call: the run comes to its end.
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
from holodeck_action.llm.usage import Price, record_of

EXHAUSTED = "budget_exhausted"
"""Code of the `WireError` with which a call is refused."""
UNPRICED = "price_unknown"
"""Code of the `WireError` for a call whose price nobody knows, while a budget in US dollars is to hold."""

BYTES_PER_TOKEN = 4
IMAGE_TOKENS = 5_000
"""Tokens that an image counts for: above what the current models of OpenAI and Anthropic take for a large one."""
COMPLETION_GUESS = 4_096
"""Tokens that an answer without a limit of its own counts for."""

_LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
_SLACK_USD = 1e-12
"""For sums of floats: what fits exactly fits."""


class Amount(Struct, frozen=True):
    """Tokens of prompt and answer together, and US dollars (0.0 where no budget in dollars holds)."""

    tokens: int
    cost_usd: float = 0.0


class Budget:
    """A limit in US dollars, in tokens, or both, which all calls that it is about share.

    It outlives the event loop of one suite, so that several suites of a run can share it one after the other.
    """

    def __init__(self, *, max_cost_usd: float | None = None, max_tokens: int | None = None) -> None:
        """Start with nothing spent; 0 refuses every call that costs something."""
        self.max_cost_usd = max_cost_usd
        self.max_tokens = max_tokens
        self._spent_usd = 0.0
        self._spent_tokens = 0
        self._calls = 0
        self._reserved: dict[int, Amount] = {}
        self._tickets = 0
        self._queue: deque[tuple[Amount, asyncio.Future[int | None]]] = deque()
        self._refusal: str | None = None
        self._on_refusal: Callable[[str], None] | None = None

    @property
    def spent(self) -> Amount:
        """What the calls that have ended took."""
        return Amount(self._spent_tokens, self._spent_usd)

    @property
    def reserved(self) -> Amount:
        """What the calls under way may take."""
        held = self._reserved.values()
        return Amount(sum(amount.tokens for amount in held), math.fsum(amount.cost_usd for amount in held))

    @property
    def refusal(self) -> str | None:
        """Why no more calls are made, one sentence; None while there is room."""
        return self._refusal

    @contextmanager
    def telling(self, on_refusal: Callable[[str], None]) -> Iterator[None]:
        """Tell, within the block, that the budget is used up: once, with `refusal`, before the call is refused."""
        self._on_refusal = on_refusal
        try:
            if self._refusal is not None:
                on_refusal(self._refusal)
            yield
        finally:
            self._on_refusal = None

    async def reserve(self, amount: Amount) -> int:
        """Reserve room; first come, first served.

        Returns:
            A ticket for `settle`, which must be given back once.

        Raises:
            WireError: `budget_exhausted`, there is not enough left, and no call under way could leave more.
        """
        if self._refusal is None and not self._queue:
            if self._fits(amount):
                return self._take(amount)
            if not self._reserved:
                self._refuse(amount)
        if self._refusal is not None:
            raise WireError(self._refusal, EXHAUSTED)
        turn: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._queue.append((amount, turn))
        try:
            ticket = await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and (given := turn.result()) is not None:
                self.settle(given, None)
            else:
                turn.cancel()
                self._wake()
            raise
        if ticket is None:
            raise WireError(self._refusal or "the budget is used up", EXHAUSTED)
        return ticket

    def settle(self, ticket: int, spent: Amount | None) -> None:
        """Put what a call took in the place of its reservation; None for a call that was never made.

        Raises:
            KeyError: the ticket was given back before.
        """
        del self._reserved[ticket]
        if spent is not None:
            self._calls += 1
            self._spent_tokens += spent.tokens
            self._spent_usd += spent.cost_usd
        self._wake()

    def charge(self, spent: Amount) -> None:
        """Count what was spent without asking; where it is more than the budget, no more calls are made."""
        self._calls += 1
        self._spent_tokens += spent.tokens
        self._spent_usd += spent.cost_usd
        beyond = self._beyond_usd(0.0) or (self.max_tokens is not None and self._spent_tokens > self.max_tokens)
        if beyond and self._refusal is None:
            self._refuse(None)
        self._wake()

    def _fits(self, amount: Amount) -> bool:
        reserved = self.reserved
        return not self._beyond_usd(reserved.cost_usd + amount.cost_usd) and (
            self.max_tokens is None or self._spent_tokens + reserved.tokens + amount.tokens <= self.max_tokens
        )

    def _beyond_usd(self, more: float) -> bool:
        return self.max_cost_usd is not None and self._spent_usd + more > self.max_cost_usd + _SLACK_USD

    def _take(self, amount: Amount) -> int:
        self._tickets += 1
        self._reserved[self._tickets] = amount
        return self._tickets

    def _wake(self) -> None:
        while self._queue:
            amount, turn = self._queue[0]
            if not turn.done():
                if self._refusal is None and not self._fits(amount):
                    if self._reserved:
                        return
                    self._refuse(amount)
                turn.set_result(None if self._refusal is not None else self._take(amount))
            self._queue.popleft()

    def _refuse(self, amount: Amount | None) -> None:
        """Make no more calls: there is no room for this one, or more than the budget was spent already (None)."""
        calls = f"{self._calls:,} {'call' if self._calls == 1 else 'calls'}"
        in_usd = self.max_cost_usd is not None and self._beyond_usd(0.0 if amount is None else amount.cost_usd)
        whole = dollars(self.max_cost_usd or 0.0) if in_usd else f"{self.max_tokens:,} tokens"
        spent = dollars(self._spent_usd) if in_usd else f"{self._spent_tokens:,}"
        if amount is None:
            told = f"{calls} took {spent}"
        elif in_usd:
            told = f"{spent} of it spent in {calls}, and the next one may cost {dollars(amount.cost_usd)}"
        else:
            told = f"{spent} of them in {calls}, and the next one may take {amount.tokens:,}"
        self._refusal = f"the budget of {whole} is used up: {told}"
        if self._on_refusal is not None:
            self._on_refusal(self._refusal)


class Spending:
    """The link that makes a call only when the budget has room for it.

    It is below cassettes and de-duplication, so that only what is paid for passes it, and above the retries: one
    reservation holds for all attempts of a call.
    """

    def __init__(self, next_link: Link, budget: Budget, price: Price) -> None:
        """Prepare.

        Args:
            next_link: what makes the call.
            budget: shared by all calls that it limits.
            price: what tokens cost.
        """
        self._next = next_link
        self._budget = budget
        self._price = price

    async def __call__(self, call: Call) -> Answer:
        """Reserve, call, count.

        An answer that does not tell its tokens counts as its estimate, and so does every request that was sent and
        whose answer was lost (`Losses`): it may have been charged. An error of the provider counts as nothing.

        Raises:
            WireError: `budget_exhausted`, `price_unknown`; whatever the call raises.
        """
        tokens = estimate(call)
        reservation = Amount(_sum(tokens), self._cost(call, tokens))
        # A call under way may hold its reservation for as long as it waits for a rate limit.
        with call.clocks.standing_still():
            ticket = await self._budget.reserve(reservation)
        spent: Amount | None = None
        try:
            answer = await self._next(call)
            spent = Amount(0) if answer.status >= 300 else self._actual(call, answer, tokens, reservation)
            return answer
        finally:
            if call.lost:
                spent = _added(spent or Amount(0), reservation, call.lost)
            self._budget.settle(ticket, spent)

    def _cost(self, call: Call, tokens: Tokens) -> float:
        if self._budget.max_cost_usd is None:
            return 0.0
        cost = self._price(call.account, _asked(call), tokens)
        if cost is None:
            raise WireError(
                f"the price of {call.account.provider} model {_asked(call) or '(unknown)'} is not known, so that a "
                "budget in US dollars cannot hold; give one in tokens (--max-tokens)",
                UNPRICED,
            )
        return cost

    def _actual(self, call: Call, answer: Answer, guess: Tokens, reservation: Amount) -> Amount:
        record = record_of(call, answer, self._price)
        reported = record.tokens
        tokens = replace(
            reported,
            prompt=guess.prompt if reported.prompt is None else reported.prompt,
            completion=guess.completion if reported.completion is None else reported.completion,
        )
        if self._budget.max_cost_usd is None:
            return Amount(_sum(tokens))
        costs = (record.cost_usd, self._price(call.account, _asked(call), tokens), reservation.cost_usd)
        return Amount(_sum(tokens), next(cost for cost in costs if cost is not None))


class Losses:
    """The link right above the network that counts the requests of a call whose answers were lost."""

    def __init__(self, next_link: Link) -> None:
        self._next = next_link

    async def __call__(self, call: Call) -> Answer:
        """Count the request as lost until it has an answer, whatever its status."""
        call.lost += 1
        try:
            answer = await self._next(call)
        except WireError as error:
            if error.code == "connect":
                call.lost -= 1
            raise
        call.lost -= 1
        return answer


def estimate(call: Call) -> Tokens:
    """Return the tokens for which room is reserved."""
    data = call.request.content
    images, bulk = _images(call.request.document) if b"image" in data else (0, 0)
    prompt = -(-(len(data) - bulk) // BYTES_PER_TOKEN) + images * IMAGE_TOKENS
    return Tokens(prompt, 0 if call.context.kind == "embedding" else _most(call.request.document))


def text_tokens(text: str) -> int:
    """Return the tokens that a text is taken to have, as `estimate` counts them."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def dollars(value: float) -> str:
    """Show an amount with at least two decimals, with four (below a cent six) where they say something."""
    text = f"{value:.{4 if value >= 0.01 else 6}f}".rstrip("0")
    whole, _, part = text.partition(".")
    return f"${int(whole):,}.{part:0<2}"


def _most(document: Any) -> int:
    """Return the most tokens that an answer may have."""
    if not isinstance(document, Mapping):
        return COMPLETION_GUESS
    options = document.get("options")
    limits = [document.get(name) for name in _LIMITS]
    limits.append(options.get("num_predict") if isinstance(options, Mapping) else None)
    known = [limit for limit in limits if isinstance(limit, int) and limit > 0]
    return max(known, default=COMPLETION_GUESS)


def _images(value: Any) -> tuple[int, int]:
    """Return how many images a request holds, and how many of its characters are theirs."""
    if isinstance(value, list):
        found = [_images(item) for item in value]
    elif isinstance(value, Mapping):
        if value.get("type") in ("image_url", "input_image", "image"):
            return 1, sum(len(text) for text in _texts(value))
        found = [_images(item) for item in value.values()]
    else:
        return 0, 0
    return sum(images for images, _ in found), sum(bulk for _, bulk in found)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def _asked(call: Call) -> str:
    document = call.request.document
    model = document.get("model") if isinstance(document, Mapping) else None
    return model if isinstance(model, str) else ""


def _sum(tokens: Tokens) -> int:
    return (tokens.prompt or 0) + (tokens.completion or 0)


def _added(amount: Amount, more: Amount, times: int) -> Amount:
    return Amount(amount.tokens + times * more.tokens, amount.cost_usd + times * more.cost_usd)
