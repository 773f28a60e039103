"""Evaluate agent suites and decide whether a change may be merged.

The package has the public names of `holodeck_action.api`; each is imported when it is first used.
"""

__version__ = "1.0.0"

__all__ = [
    "AnswerFacts",
    "Case",
    "CaseRecord",
    "Comparison",
    "ConfigurationError",
    "Evaluation",
    "LLMProvider",
    "MetricVerdict",
    "Record",
    "RunOptions",
    "Suite",
    "TrialRecord",
    "Turn",
    "TurnRecord",
    "Verdict",
    "compare",
    "evaluate",
    "load_suite",
    "read_record",
    "score",
    "verdict_of",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # A worker of an older Python imports the package, too, and none of these names.
    from importlib import import_module

    return getattr(import_module("holodeck_action.api"), name)


def __dir__() -> "list[str]":
    return [*globals(), *__all__]
