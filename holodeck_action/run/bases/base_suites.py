"""Base suites: a base suite runs at the same time as a suite, the head, so that their agents can be compared.

Both agents get the cases that both suites have, in the head's version, and are graded by the head's metrics, judges,
settings and files. Only the agent differs: its model, instructions, tools and code.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from holodeck_action.github.annotations import locate_folder
from holodeck_action.record.agent_errors import TargetError
from holodeck_action.record.own_terms import OwnPlan
from holodeck_action.record.record import BaseRun
from holodeck_action.run.case_choice import filters_of, with_trials
from holodeck_action.run.loading import LoadedSuite, load_one_suite, with_lines
from holodeck_action.run.options.action_inputs import Flags
from holodeck_action.run.options.settings import SettingsError, merge_baseline, merge_calls
from holodeck_action.run.preflight import with_target
from holodeck_action.run.run import BaseSide, Run
from holodeck_action.suite.checkout import Checkout, head_commit
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.agent import Instructions
from holodeck_action.suite.model.targets import OWN_MODEL, AnyTarget, ModelTarget
from holodeck_action.suite.values import Case, Suite
from holodeck_action.targets.factory import describe_target
from holodeck_action.text.foreign import ForeignError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line


def load_base_suites(suites: Sequence[Run]) -> Sequence[Run]:
    """Return the suites, each with the base that the command line requests, ready to run.

    Raises:
        ConfigurationError: the base cannot be run.
    """
    against = suites[0].flags.against
    if against is not None and len(suites) > 1:
        raise ConfigurationError(
            [f"--against {against}: {len(suites)} suites are run, but only one can be compared; name one"]
        )
    return [structs.replace(item, base=_load_base_suite(item)) for item in suites]


def _load_base_suite(prepared_suite: Run) -> Run:
    flags = prepared_suite.flags
    target = flags.target if flags.against_target is None else flags.against_target
    loaded: LoadedSuite = prepared_suite.with_flags(target=target, allow_empty=False)
    if flags.against is not None:
        loaded = load_one_suite(flags.against, loaded.context, "--against needs a single suite; give one path")
    try:
        if flags.against is None:
            loaded = structs.replace(loaded, suite=_vary_agent(prepared_suite))
        changed = with_agent(prepared_suite, loaded)
    except TargetError as error:
        flag = "--target" if flags.against_target is None else "--against-target"
        message = str(error).replace("--target", flag, 1) if str(error).startswith("--target") else str(error)
        wrong = loaded.target_problems(TargetError(message, error.problems))
        raise ConfigurationError(with_lines(wrong, [loaded])) from error
    source, name = _describe_source(flags, changed.target)
    variant = f"base, {source}" if flags.against is None else "base"
    changed = structs.replace(changed, display_folder=loaded.display_folder, variant=variant)
    folder = locate_folder(loaded.suite.folder, loaded.context.environ).folder
    described = BaseRun(source, head_commit(loaded.suite.folder), name=name)
    base = pair_suites(prepared_suite, changed, described, folder, is_required=True)
    if not base.cases:
        raise ConfigurationError(
            [
                f"{changed.place}: this suite has no case with the same name and content "
                f"as a case of {prepared_suite.place}"
            ]
        )
    return base


def with_agent(head: Run, loaded: LoadedSuite) -> Run:
    """Return a suite with the agent, environment and Python of another one, which is its base.

    Args:
        head: the suite to compare with the base, which keeps its cases.
        loaded: the base suite; its flags have the target of the base.

    Raises:
        TargetError: the target cannot answer.
        ConfigurationError: the base cannot be run.
    """
    from holodeck_action.run.environments.extras import agent_extras

    equipped, target, files = with_target(loaded)
    loaded.context.install(agent_extras(loaded.suite, target))
    return structs.replace(
        head,
        suite=equipped.suite,
        # A merge base is written by this run.
        context=structs.replace(loaded.context, started=float("inf")),
        environ=equipped.environ,
        python=equipped.python,
        used=equipped.used,
        case_functions=equipped.case_functions,
        target=target,
        target_files=files,
    )


def pair_suites(suite: Run, changed: Run, run: BaseRun, folder: str | None, *, is_required: bool) -> Run:
    """Return a base with only the cases whose id and content are the same in both suites.

    Args:
        suite: the suite to compare with the base (the head).
        changed: the base suite, ready to run, but with the head's cases.
        run: the base's description for the record.
        folder: the base suite's folder in the repository; None if it is not known.
        is_required: whether the run is refused if the base cannot run.
    """
    flags, head_cases = suite.flags, {case.id: case for case in suite.cases}
    contents = {case.id: case.content_hash for case in changed.suite.cases}
    paired = tuple(case for case in suite.cases if contents.get(case.id) == case.content_hash)
    taken = {case.id for case in paired}
    unpaired = tuple(
        case
        for case in changed.suite.cases
        # Cases that filters leave out are not gone.
        if case.id not in taken and (case.id in head_cases or not filters_of(flags))
    )
    policy = changed.suite.policy
    own = OwnPlan(
        tuple(_with_own_trials(case, flags) for case in changed.suite.cases),
        flags.override("gates", policy.gates),
        merge_baseline(policy.baseline, flags),
    )
    side = BaseSide(unpaired, run, folder, is_required, own, merge_calls(changed.suite, flags))
    return structs.replace(changed, cases=paired, graded_by=suite, as_base=side)


def _with_own_trials(case: Case, flags: Flags) -> Case:
    try:
        return with_trials(case, flags)
    except SettingsError:
        # The base alone could not run with these flags.
        return case


def _vary_agent(suite: Run) -> Suite:
    """Return the suite with the command line's model name or instructions; unchanged with `--against-target`.

    Raises:
        TargetError: the model or the instructions are to change, but the target is not the suite's own model.
        ConfigurationError: the instructions cannot be read.
    """
    flags = suite.flags
    if flags.against_target is not None:
        return suite.suite
    flag = "--against-model" if flags.against_prompt is None else "--against-prompt"
    if not isinstance(suite.target, ModelTarget):
        answers = describe_target(suite.target)
        raise TargetError(f"{flag} applies to the suite's own model, but {answers} answers; give --target {OWN_MODEL}")
    agent = suite.suite.agent
    if flags.against_prompt is None:
        model = agent.model.model_copy(update={"name": flags.against_model})
        return structs.replace(suite.suite, agent=agent.model_copy(update={"model": model}))
    instructions = Instructions(inline=_read_instructions(flags.against_prompt, suite.context.cwd))
    return structs.replace(suite.suite, agent=agent.model_copy(update={"instructions": instructions}))


def _read_instructions(prompt: GivenPath, cwd: Path) -> str:
    """Return the content of an instructions file.

    Raises:
        ConfigurationError: the file cannot be read, or is empty.
    """
    try:
        text = Checkout.unbounded(cwd).read(prompt.path).text()
    except (OSError, ForeignError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it {error}"
        raise ConfigurationError([f"--against-prompt {prompt}: cannot be read: {reason}"]) from error
    if not text.strip():
        raise ConfigurationError([f"--against-prompt {prompt}: holds no instructions"])
    return text


def _describe_source(flags: Flags, target: AnyTarget) -> tuple[str, str]:
    """Return the base's source, such as `against-model:gpt-6.1-sol`, and its name, such as `gpt-6.1-sol`; both without
    secrets."""
    assert flags.compared_with is not None
    name, value = flags.compared_with
    shown = describe_target(target) if name == "against_target" else one_line(str(value), 200)
    return f"{name.replace('_', '-')}:{shown}", shown
