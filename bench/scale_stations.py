"""Stations of `bench/scale_simulation.py`: CPU cores and a provider's account."""

from __future__ import annotations

from bench.scale_model import Provider


class Core:
    """A CPU core that does one piece of work after the other."""

    def __init__(self, busy_s: float = 0.0) -> None:
        """Start idle; `busy_s` is the time that a previous core has worked."""
        self._free = 0.0
        self.busy_s = busy_s

    def work(self, now: float, seconds: float) -> float:
        """Add work of some seconds; return the time at which it is done."""
        self.busy_s += seconds
        self._free = max(now, self._free) + seconds
        return self._free


class Account:
    """Limits of a provider: token buckets with the capacity of one second."""

    def __init__(self, provider: Provider, tokens: int) -> None:
        """Start with full buckets; `tokens` is the number of tokens per request."""
        self._at_once = provider.at_once
        self._limits = [
            (name, limit / 60, taken)
            for name, limit, taken in (
                ("requests a minute", provider.requests_per_minute, 1.0),
                ("tokens a minute", provider.tokens_per_minute, float(tokens)),
            )
            if limit is not None
        ]
        self._left = [max(rate, taken) for _, rate, taken in self._limits]
        self._since = 0.0
        self._taken = 0
        self.under_way = 0
        self.refused = 0

    def admits(self, now: float) -> bool:
        """Return whether the account accepts a request, and count it if so."""
        passed, self._since = now - self._since, now
        for place, (_, rate, taken) in enumerate(self._limits):
            self._left[place] = min(max(rate, taken), self._left[place] + passed * rate)
        full = self._at_once is not None and self.under_way >= self._at_once
        if full or any(left < taken for left, (_, _, taken) in zip(self._left, self._limits, strict=True)):
            self.refused += 1
            return False
        for place, (_, _, taken) in enumerate(self._limits):
            self._left[place] -= taken
        self._taken += 1
        return True

    def used_shares(self, seconds: float) -> dict[str, float]:
        """Return the used share of each limit in this time."""
        return {name: self._taken * taken / (rate * seconds) for name, rate, taken in self._limits}
