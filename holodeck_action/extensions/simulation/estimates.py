"""Estimates, before a run, the calls of the models that play users."""

from __future__ import annotations

from holodeck_action.extensions.simulation.prompt import instructions
from holodeck_action.extensions.simulation.settings import Simulate
from holodeck_action.llm.limits.budget import COMPLETION_GUESS, text_tokens
from holodeck_action.llm.providers import Reasoning
from holodeck_action.llm.reasoning import answer_limit
from holodeck_action.run.estimates import ModelEstimate, Tally, fewest_trials, label_of
from holodeck_action.run.run import Run
from holodeck_action.targets.own_model.runner_settings import longest_answer


def estimate_users(suite: Run) -> tuple[ModelEstimate, ...]:
    """Estimate the calls of each model that plays a user in a suite's cases.

    The minimum assumes that conversations end as early as possible. The maximum assumes that conversations have all
    their turns, and that each message is requested twice.
    """
    answer = longest_answer(suite.suite.agent) or COMPLETION_GUESS
    tallies: dict[tuple[str, int], Tally] = {}
    for case in suite.own_cases:
        user = case.simulation
        if not isinstance(user, Simulate):
            continue
        model = user.player
        longest = answer_limit(model, Reasoning()) or COMPLETION_GUESS
        tally = tallies.setdefault((label_of(model), longest), Tally(model, longest))
        fixed = text_tokens(instructions(user.facts()))
        free = user.max_turns - len(user.lines)
        # Before its first message the model is always asked; then it is asked whether the goal is met.
        fewest = 0 if free == 0 else 1 if user.stop or user.max_turns == 1 else 2
        fewest -= bool(user.lines) and fewest > 0
        said = sum(range(len(user.lines), user.max_turns)) * (longest + answer)
        tally.add_range(
            (fewest_trials(suite, case) * fewest, case.repeat * 2 * free),
            (fewest_trials(suite, case) * fewest * fixed, case.repeat * 2 * (free * fixed + said)),
        )
    return tuple(tallies[key].estimate() for key in sorted(tallies))
