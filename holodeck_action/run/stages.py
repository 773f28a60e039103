"""The stages of a run: the points at which extensions are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, ClassVar, TextIO

from msgspec import Struct

from holodeck_action.seam import registry
from holodeck_action.suite.configuration_errors import ConfigurationError, LocatedProblem
from holodeck_action.suite.values import Suite

if TYPE_CHECKING:
    from pathlib import Path

    from holodeck_action.llm.limits.budget import Budget
    from holodeck_action.llm.wire import Wire
    from holodeck_action.run.options.action_inputs import Flags
    from holodeck_action.run.options.settings import Settings
    from holodeck_action.run.schedule import Stop, Trials
    from holodeck_action.run.used_files import UsedFiles
    from holodeck_action.scoring.exam_results import Exams
    from holodeck_action.suite.checkout import Checkout
    from holodeck_action.suite.model.targets import AnyTarget
    from holodeck_action.text.redaction import Redactor
    from holodeck_action.workers.permission import CodeAllowed


class StagedSuite(Struct, frozen=True):
    """What an extension sees of a suite that is ready to run.

    `display_folder` is the path of the suite's folder relative to the current folder; `target_files` has the folder
    that paths in the target are relative to, and the files that may be read.
    """

    suite: Suite
    display_folder: str
    environ: Mapping[str, str]
    code: CodeAllowed
    settings: Settings
    target: AnyTarget
    target_files: Checkout
    redactor: Redactor


class Counters(Struct, frozen=True):
    """What counts the files, the spending and the model calls of a suite's trials; `wire` is None without calls."""

    used: UsedFiles
    budgets: tuple[Budget, ...]
    wire: Wire | None


class UserOutput(Struct, frozen=True):
    """An extension's output to the user: a function for notes of one sentence each, and standard error."""

    note: Callable[[str], None]
    stderr: TextIO


class Executor(Struct, frozen=True):
    """An extension's replacement for running a suite's trials in this process.

    Attributes:
        max_trials: maximum number of concurrent trials.
        open: called with the run's `Stop` and the results of the judges' probes; returns the runner of trials as an
            async context manager.
    """

    max_trials: int
    open: Callable[[Stop, Exams], AbstractAsyncContextManager[Trials]]


class Stages:
    """The stages of an extension in a run, one object for each run; each method does nothing by default.

    The methods are called in the order of their definitions.
    """

    GRADES_ELSEWHERE: ClassVar[bool] = False
    """Whether trials run and are graded in other processes. Then judging libraries need not start early in this one,
    and the number of conversations does not grow."""

    def extras(self, suite: Suite, flags: Flags, environ: Mapping[str, str]) -> Iterable[tuple[str, str]]:
        """Return the extras of holodeck-action that the extension needs for a suite, each with the reason."""
        return ()

    def check_flags(self, flags: Flags) -> None:
        """Check the combination of options.

        Raises:
            ConfigurationError: options contradict each other.
        """

    def check(self, suite: StagedSuite) -> Iterable[str | LocatedProblem]:
        """Return a problem for each setting of a suite that the extension cannot honour."""
        return ()

    def executor(
        self, suite: StagedSuite, counters: Counters, flags: Flags, excluded: Sequence[Path], user_output: UserOutput
    ) -> Executor | None:
        """Return the executor of a suite's trials, or None. At most one extension may return an executor.

        Args:
            suite: the suite.
            counters: what counts the files, spending and calls of the trials.
            flags: the options of the command.
            excluded: folders for the run's output, which are not sent as inputs of the trials.
            user_output: the extension's output to the user.

        Raises:
            ConfigurationError: the extension cannot run the trials; nothing has run then.
        """
        return None

    def run_context(self, suite: StagedSuite, user_output: UserOutput) -> AbstractContextManager[None]:
        """Return a context manager that is entered while a suite runs."""
        return nullcontext()


def stages_of(suites: Iterable[Suite], flags: Flags) -> tuple[Stages, ...]:
    """Return the stages of each extension that has an option or agent.yaml key that is set for this run."""
    given = {*flags.extra}
    for suite in suites:
        given |= {key for key in registry.sections() if getattr(suite.agent, key, None) is not None}
    return tuple(stage() for stage in registry.stages(given))


def executor_of(
    stages: Sequence[Stages],
    suite: StagedSuite,
    counters: Counters,
    flags: Flags,
    excluded_folders: Sequence[Path],
    user_output: UserOutput,
) -> Executor | None:
    """Return the executor of a suite's trials, or None to run them in this process.

    Raises:
        ConfigurationError: the extension cannot run the trials, or two extensions return an executor.
    """
    answers = [stage.executor(suite, counters, flags, excluded_folders, user_output) for stage in stages]
    found = [answer for answer in answers if answer is not None]
    if len(found) > 1:
        raise ConfigurationError(["two extensions would run the trials; leave out one extension's options"])
    return found[0] if found else None


@contextmanager
def enter_all(stages: Iterable[Stages], suite: StagedSuite, user_output: UserOutput) -> Iterator[None]:
    """Enter the run contexts of all extensions within the block."""
    with ExitStack() as scope:
        for stage in stages:
            scope.enter_context(stage.run_context(suite, user_output))
        yield
