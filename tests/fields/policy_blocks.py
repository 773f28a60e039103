"""Blocks of the policy file whose fields this version checks and keeps for later ones."""

from __future__ import annotations

from tests.fields.blocks import ABOVE_ZERO, TEXT, Block, Values, choice, count

MODELS = Values(("[{provider: openai, name: j}]",), "gpt", "must be a list")


def policy(model: str, place: str, path: str, fields: dict[str, Values]) -> Block:
    """A block of the policy file."""
    return Block(model, fields, place=place, path=path, file="holodeck-action.yaml")


BLOCKS = (
    policy(
        "Judges",
        "judges: %s",
        "judges",
        {
            "models": MODELS,
            "aggregation": choice("majority_vote", "median", "mean", "min", "max"),
            "min_successful_judges": Values(("2",), "0", "0 is out of range (allowed: 1 or more)"),
            "max_concurrent_judges": count(1),
            "fallback_models": MODELS,
            "escalate": Values(("{to: {provider: openai, name: m}}",), "3", "must be a mapping"),
        },
    ),
    policy(
        "SuiteJudges",
        "judges: %s",
        "judges",
        {"cards": Values(("[a.json]", "[a.json, b.json]"), "a.json", "must be a list")},
    ),
    policy("CacheSettings", "cache: %s", "cache", {"dir": TEXT, "ttl_days": ABOVE_ZERO}),
)
