"""The probe of a judge: whether it told an obviously right from an absurd answer before the first case."""

from __future__ import annotations

from msgspec import Struct

from holodeck_action.record.facts import Rating


class JudgeProbe(Struct, frozen=True, omit_defaults=True):
    """The probe of one judge with one metric.

    Attributes:
        metric: name of the metric.
        judge: the judge, such as `openai/gpt-6.1-sol`.
        identity: SHA-256, in hex, of the metric's version and settings, the judge's model, address and settings, and
            the two answers.
        passed: whether the judge gave the right answer the better score.
        right: score of the right answer, in the last attempt; None if there is no number.
        absurd: score of the absurd answer, in the last attempt; None if there is no number.
        attempts: how often the judge got both answers; 0 if `kept` is true.
        code: code of the error if the judge did not pass; empty if it passed.
        problem: why the judge did not pass, as a sentence; empty if it passed.
        kept: whether the result is an earlier one, such as that of the base's record, so that the judge was not called.
    """

    metric: str
    judge: str
    identity: str
    passed: bool
    right: Rating | None = None
    absurd: Rating | None = None
    attempts: int = 0
    code: str = ""
    problem: str = ""
    kept: bool = False
