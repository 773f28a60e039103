"""Describes simulated users in reports: sentences, one-line summaries and titles of inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.decide.simulated_users import UserSummary
from holodeck_action.record.record import SimulatedUser, UserCalls
from holodeck_action.reports.phrases import price_text
from holodeck_action.suite.model.simulation import Speaker


def user_lines(user: SimulatedUser, calls: UserCalls | None) -> Iterator[str]:
    """Yield sentences about a simulated user: the model, the goal, and what the model did in a trial.

    The sentences contain texts of the suite, so callers must escape each whole sentence.
    """
    about = [] if user.temperature is None else [f"temperature {user.temperature:g}"]
    about.append(f"prompt {user.prompt_digest[:12]}")
    if calls is not None and calls.seed is not None:
        about.append(f"seed {calls.seed}")
    yield f"{user.model} plays the user ({', '.join(about)})"
    for title, text in (("goal", user.goal), ("persona", user.persona), ("knows", user.knows)):
        if text:
            yield f"{title}: {text}"
    if calls is not None and calls.ended:
        again = f", {calls.asked_again:,} of them for a message that could not be used" if calls.asked_again else ""
        yield f"the conversation ended: {calls.ended} (after {count_phrase(calls.calls, 'call')}{again})"


def user_summary_text(user: UserSummary) -> str:
    """Describe the conversations, calls and usage of a model that played users in a run."""
    about = "" if user.temperature is None else f" (temperature {user.temperature:g})"
    parts = [count_phrase(user.conversations, "conversation"), count_phrase(user.calls, "call")]
    if user.asked_again:
        parts.append(f"{user.asked_again:,} asked again")
    if user.failed:
        parts.append(f"{user.failed:,} failed")
    tokens = f"{'at least ' if user.tokens.unknown else ''}{user.tokens.known:,.0f} tokens"
    if user.calls:
        parts += (tokens, price_text(user.cost_usd))
    return f"user played by {user.model}{about}: {', '.join(parts)}"


SPEAKERS: Mapping[Speaker, str] = {"": "Input", "script": "User, from the script", "model": "User, played by a model"}
"""Titles of the input of a turn."""
