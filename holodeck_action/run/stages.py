"""What extensions do in a run, at the places where it asks them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, ClassVar, TextIO

from msgspec import Struct

from holodeck_action.seam import registry
from holodeck_action.suite.configuration_errors import ConfigurationError, Located
from holodeck_action.suite.values import Suite

if TYPE_CHECKING:
    from pathlib import Path

    from holodeck_action.run.open_suites import Opened
    from holodeck_action.run.preflight import Prepared
    from holodeck_action.run.request import Request
    from holodeck_action.run.schedule import Stop, Trials
    from holodeck_action.run.settings import Flags


class Voice(Struct, frozen=True):
    """How an extension speaks to the reader of a run: notes of one sentence each, and standard error."""

    note: Callable[[str], None]
    stderr: TextIO


class Executor(Struct, frozen=True):
    """What runs the trials of a suite in the place of this process.

    Attributes:
        trials: how many it has at a time.
        open: runs them for the block of `async with`; told why the run must stop, if it must.
    """

    trials: int
    open: Callable[[Stop], AbstractAsyncContextManager[Trials]]


class Stages:
    """What an extension does in a run: nothing, where it does not say otherwise. There is one object for a run.

    The methods stand in the order in which they are called.
    """

    ELSEWHERE: ClassVar[bool] = False
    """Whether trials are graded elsewhere, so that what grades here need not begin before it is asked."""

    def check_request(self, request: Request) -> None:
        """Check that options go together.

        Raises:
            ConfigurationError: they do not.
        """

    def check(self, item: Prepared) -> Iterable[str | Located]:
        """Return what a suite asks for and the extension cannot do."""
        return ()

    def executor(self, ready: Opened, request: Request, leave_out: Sequence[Path], voice: Voice) -> Executor | None:
        """Return what runs the trials of a suite; None for this process. At most one extension may answer.

        Args:
            ready: the suite.
            request: what is asked for.
            leave_out: folders of the run itself.
            voice: speaks to the reader.

        Raises:
            ConfigurationError: it cannot run them; nothing has run then.
        """
        return None

    def around(self, ready: Opened, voice: Voice) -> AbstractContextManager[None]:
        """Return what holds while a suite runs."""
        return nullcontext()


def stages_of(suites: Iterable[Suite], flags: Flags) -> tuple[Stages, ...]:
    """Return what the extensions do that a run of suites uses, by their options and their keys of agent.yaml."""
    given = {*flags.extra}
    for suite in suites:
        given |= {key for key in registry.sections() if getattr(suite.agent, key, None) is not None}
    return tuple(stage() for stage in registry.stages(given))


def executor_of(
    stages: Sequence[Stages], ready: Opened, request: Request, leave_out: Sequence[Path], voice: Voice
) -> Executor | None:
    """Return what runs the trials of a suite; None for this process.

    Raises:
        ConfigurationError: it cannot run them, or two extensions would.
    """
    answers = [stage.executor(ready, request, leave_out, voice) for stage in stages]
    found = [answer for answer in answers if answer is not None]
    if len(found) > 1:
        raise ConfigurationError(["two extensions would run the trials: leave out the options of one"])
    return found[0] if found else None


@contextmanager
def around_all(stages: Iterable[Stages], ready: Opened, voice: Voice) -> Iterator[None]:
    """Hold what holds while a suite runs, of all extensions."""
    with ExitStack() as scope:
        for stage in stages:
            scope.enter_context(stage.around(ready, voice))
        yield


def checked(stages: Iterable[Stages], item: Prepared) -> Iterator[str | Located]:
    """Yield what a suite asks for and an extension cannot do."""
    for stage in stages:
        yield from stage.check(item)
