"""Suites that run beside others, which are compared with them: the same cases, asked of another agent.

The cases that both have, as the compared suite has them, with its metrics, judges, settings and files, are what both
agents are asked and graded by. Only the agent is another one: its model, instructions, tools and code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from msgspec import Struct, structs

from holodeck_action.github.annotations import placed
from holodeck_action.record.agent_errors import TargetError
from holodeck_action.record.own_terms import OwnPlan
from holodeck_action.record.record import BaseRun
from holodeck_action.run.case_choice import filters_of, with_trials
from holodeck_action.run.loading import Surroundings, load_one, shown_folder, with_lines, with_python
from holodeck_action.run.preflight import Prepared, check_python_target, target_of
from holodeck_action.run.schedule import TrialKey
from holodeck_action.run.settings import Flags, SettingsError, merge_baseline
from holodeck_action.suite.checkout import Checkout, head_commit
from holodeck_action.suite.configuration_errors import ConfigurationError, target_problems
from holodeck_action.suite.model.agent import Instructions
from holodeck_action.suite.model.targets import OWN_MODEL, AnyTarget, ModelTarget
from holodeck_action.suite.values import Case, Suite
from holodeck_action.targets.factory import describe
from holodeck_action.text.foreign import ForeignError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line


class BaseSuite(Struct, frozen=True):
    """A suite that runs beside another one.

    Attributes:
        item: ready to run; its cases are those that both have, as the other one has them.
        unpaired: further cases of its own, which are not asked: they are gone from the other one, or changed there.
        run: what the record says of it.
        folder: where it stands in the repository; None where that is not known.
        required: whether trouble with it keeps the other one from running.
        own: what it would ask for by itself.
    """

    item: Prepared
    unpaired: tuple[Case, ...]
    run: BaseRun
    folder: str | None
    required: bool
    own: OwnPlan

    @property
    def trials(self) -> frozenset[TrialKey]:
        """The trials that are run."""
        return frozenset((case.id, index) for case in self.item.own_cases for index in range(case.repeat))


def suites_against(prepared: Sequence[Prepared], flags: Flags, around: Surroundings) -> tuple[BaseSuite | None, ...]:
    """Return what runs beside each suite because the command line asks for it.

    Args:
        prepared: the suites.
        flags: the command line.
        around: the outside world.

    Raises:
        ConfigurationError: what is asked for cannot be run.
    """
    if flags.compared_with is None:
        return tuple(None for _ in prepared)
    if flags.against is not None and len(prepared) > 1:
        raise ConfigurationError(
            [f"--against {flags.against}: {len(prepared)} suites are run, and one can be compared with it; name that"]
        )
    return tuple(_against(item, flags, around) for item in prepared)


def _against(item: Prepared, flags: Flags, around: Surroundings) -> BaseSuite:
    other = flags.against
    loaded = item if other is None else load_one(other, around, "a run is compared with one")
    shown = shown_folder(loaded.suite.folder, around.cwd)
    found = flags if flags.against_target is None else structs.replace(flags, target=flags.against_target)
    try:
        suite = _varied(item, flags, around) if other is None else loaded.suite
        target, files = target_of(suite, found, around)
        equipped = with_python(structs.replace(loaded, suite=suite), around, target)
        check_python_target(equipped, target)
    except TargetError as error:
        flag = "--target" if flags.against_target is None else "--against-target"
        message = str(error).replace("--target", flag, 1) if str(error).startswith("--target") else str(error)
        wrong = target_problems(loaded.suite, shown, message, error.problems, written=found.target)
        raise ConfigurationError(with_lines(wrong, [loaded])) from error
    source, name = _source(flags, target)
    changed = structs.replace(item, suite=suite, environ=loaded.environ, shown=shown, target=target, target_files=files)
    changed = structs.replace(
        changed,
        python=equipped.python,
        written=found.target,
        variant="base" if other is not None else f"base, {source}",
    )
    folder = placed(suite.folder, around.environ).folder
    base = beside(item, changed, flags, BaseRun(source, head_commit(suite.folder), name=name), folder, required=True)
    if not base.item.cases:
        raise ConfigurationError(
            [f"{changed.place}: none of its cases has the name and content of a case of {item.place}"]
        )
    return base


def beside(
    item: Prepared, changed: Prepared, flags: Flags, run: BaseRun, folder: str | None, *, required: bool
) -> BaseSuite:
    """Pair the cases of two suites: those with the same id and content run in both.

    Args:
        item: the suite that is compared.
        changed: what it is compared with, ready but for its cases.
        flags: the command line.
        run: see `BaseSuite`, as for the arguments that follow.
        folder: where it stands.
        required: whether it must run.
    """
    asked = {case.id: case for case in item.cases}
    contents = {case.id: case.content_hash for case in changed.suite.cases}
    paired = tuple(case for case in item.cases if contents.get(case.id) == case.content_hash)
    taken = {case.id for case in paired}
    unpaired = tuple(
        case
        for case in changed.suite.cases
        # What filters leave out is not gone.
        if case.id not in taken and (case.id in asked or not filters_of(flags))
    )
    policy = changed.suite.policy
    own = OwnPlan(
        tuple(_own_trials(case, flags) for case in changed.suite.cases),
        flags.over("gates", policy.gates),
        merge_baseline(policy.baseline, flags),
    )
    return BaseSuite(structs.replace(changed, cases=paired, graded_by=item), unpaired, run, folder, required, own)


def _own_trials(case: Case, flags: Flags) -> Case:
    try:
        return with_trials(case, flags)
    except SettingsError:
        # By itself it could not run with these flags.
        return case


def _varied(item: Prepared, flags: Flags, around: Surroundings) -> Suite:
    """Return the suite with the model's name or the instructions that the command line gives.

    Raises:
        TargetError: it is not the suite's own model that answers.
        ConfigurationError: the instructions cannot be read.
    """
    if flags.against_target is not None:
        return item.suite
    flag = "--against-model" if flags.against_prompt is None else "--against-prompt"
    if not isinstance(item.target, ModelTarget):
        raise TargetError(
            f"{flag} is about the suite's own model, but {describe(item.target)} answers; give --target {OWN_MODEL}"
        )
    agent = item.suite.agent
    if flags.against_prompt is None:
        model = agent.model.model_copy(update={"name": flags.against_model})
        return replace(item.suite, agent=agent.model_copy(update={"model": model}))
    instructions = Instructions(inline=_text(flags.against_prompt, around))
    return replace(item.suite, agent=agent.model_copy(update={"instructions": instructions}))


def _text(prompt: GivenPath, around: Surroundings) -> str:
    """Return the content of a file of instructions.

    Raises:
        ConfigurationError: it cannot be read, or says nothing.
    """
    try:
        text = Checkout.anywhere(around.cwd).read(prompt.path).text()
    except (OSError, ForeignError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it {error}"
        raise ConfigurationError([f"--against-prompt {prompt}: cannot be read: {reason}"]) from error
    if not text.strip():
        raise ConfigurationError([f"--against-prompt {prompt}: holds no instructions"])
    return text


def _source(flags: Flags, target: AnyTarget) -> tuple[str, str]:
    """Return what the run is compared with, and what to call it, without what may be secret."""
    assert flags.compared_with is not None
    name, value = flags.compared_with
    shown = describe(target) if name == "against_target" else one_line(str(value), 200)
    return f"{name.replace('_', '-')}:{shown}", shown
