"""Mixtures of faults, the same in every run."""

from __future__ import annotations

from random import Random

from tests.llm.models.rules import echo
from tests.llm.models.values import Fault, Reply, Request, Rule

PASSING = (
    Fault("rate_limit", retry_after="0"),
    Fault("rate_limit", retry_after_ms="20"),
    Fault("server_error"),
    Fault("bad_gateway"),
    Fault("unavailable"),
    Fault("overloaded"),
    Fault(wire="reset"),
    Fault(wire="close"),
    Fault(wire="truncate"),
    Fault(wire="malformed"),
    Fault(status=200, body=b"", headers={"content-type": "application/json"}),
    Fault(status=200, body=b"<html>maintenance</html>", headers={"content-type": "text/html"}),
)
"""Faults that another try may get over."""

HARD = (
    Fault("rate_limit"),
    Fault("server_error"),
    Fault(delay=5.0),
    Fault(wire="truncate"),
    Fault(wire="malformed"),
)
"""One of each kind of passing trouble, for measurements: a refusal, an error, a hang, a cut and broken JSON."""

LASTING = (Fault("quota"), Fault("context_length"), Fault("content_filter"), Fault("bad_key"), Fault("unknown_model"))
"""Faults that no other try gets over."""


def mixed(share: float, *, faults: tuple[Fault, ...] = (*PASSING, *LASTING), seed: int = 0, rule: Rule = echo) -> Rule:
    """Return a rule that gives a fault for a share (0 to 1) of the requests, by their number, else what `rule` gives.

    A request's number depends on the order of arrival: what meets a fault may differ between runs, how many does not.
    """

    def answer(request: Request) -> Reply:
        random = Random(f"{seed}/{request.number}")
        return random.choice(faults) if random.random() < share else rule(request)

    return answer
