"""What cases pass in `bench/scale_simulation.py`: processors, and the account of a provider."""

from __future__ import annotations

from bench.scale_model import Provider


class Core:
    """A processor that does one thing after the other."""

    def __init__(self, busy_s: float = 0.0) -> None:
        """Be free; `busy_s` is what one before it has worked."""
        self._free = 0.0
        self.busy_s = busy_s

    def take(self, now: float, seconds: float) -> float:
        """Work when it is free; return when that is done."""
        self.busy_s += seconds
        self._free = max(now, self._free) + seconds
        return self._free


class Account:
    """Limits of a provider: buckets that fill all the time, and hold what comes in one second."""

    def __init__(self, provider: Provider, tokens: int) -> None:
        """Begin with full buckets; a request takes so many tokens."""
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

    def takes(self, now: float) -> bool:
        """Take a request, or refuse it."""
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

    def shares(self, seconds: float) -> dict[str, float]:
        """How much of its limits was used in these seconds."""
        return {name: self._taken * taken / (rate * seconds) for name, rate, taken in self._limits}
