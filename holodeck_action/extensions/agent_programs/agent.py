"""The agent that a coding-agent program is: a session has a workspace, and starts the program for each turn."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from holodeck_action.extensions.agent_programs.adapters.adapter import Adapter, Launch
from holodeck_action.extensions.agent_programs.adapters.unknown import UnknownProgram
from holodeck_action.extensions.agent_programs.checks import (
    ChangedMetric,
    CommandMetric,
    WorkspaceCheck,
)
from holodeck_action.extensions.agent_programs.confinement import choose_confinement
from holodeck_action.extensions.agent_programs.environment import chosen
from holodeck_action.extensions.agent_programs.exam import MOST_WRITTEN, make_tree, run_shell
from holodeck_action.extensions.agent_programs.exam_rules import (
    checks_of,
    exam_notices,
    has_exams,
    hidden_places,
    holds_suite,
)
from holodeck_action.extensions.agent_programs.guard import Guard, library_folders, own_files, tracked_files
from holodeck_action.extensions.agent_programs.keeping import LeftFiles
from holodeck_action.extensions.agent_programs.machine import Machine
from holodeck_action.extensions.agent_programs.program import Finished, ProgramRun
from holodeck_action.extensions.agent_programs.recording import PlayedTurn, RecordedTurns
from holodeck_action.extensions.agent_programs.reply import partial_of, reply_of
from holodeck_action.extensions.agent_programs.self_check import KeptPasses, check_program
from holodeck_action.extensions.agent_programs.settings import AgentTarget
from holodeck_action.extensions.agent_programs.setup import set_up
from holodeck_action.extensions.agent_programs.texts import WorkspaceTextMetric
from holodeck_action.extensions.agent_programs.trajectory import NO_END, OTHER_SESSION, Ended, Tokens, Trajectory
from holodeck_action.extensions.agent_programs.workspace import (
    MOST_TEXT,
    Snapshot,
    WorkspaceError,
    changes,
    copy_folder,
    small_text,
    snapshot,
    stored_changes,
)
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.record.record import TrialRecord
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.values import Case, Suite, Turn
from holodeck_action.targets.protocol import Agent, PartialTurn, Reply, ReplyError, Session
from holodeck_action.text.foreign import Redact
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import make_storable
from holodeck_action.workers.bounded_programs import ProgramError
from holodeck_action.workers.threads import in_daemon_thread

T = TypeVar("T")


class AgentProgram(Agent):
    """A program that answers each turn by working in a folder."""

    def __init__(
        self,
        target: AgentTarget,
        adapter: Adapter,
        machine: Machine,
        fixture: Path | None,
        suite: Suite,
        checkout: Checkout,
        max_bytes: int,
        redact: Redact,
        recorded: RecordedTurns | None,
        cache: Path | None,
        job: Mapping[str, str],
    ) -> None:
        self.recorded = recorded
        self.target, self.adapter, self.fixture, self.checkout = target, adapter, fixture, checkout
        self.machine, self.max_bytes, self.redact = machine, max_bytes, redact
        self.cache, self.job = cache, job
        self._ready: asyncio.Task[None] | None = None
        self.unreported = adapter.unreported(None if self.replays else machine.environ)
        if not self.replays and "tokens" not in self.unreported:
            self.unlimited = (
                f"nothing limits what {adapter.program} spends: set budget.max_cost_usd in the policy file, or "
                "--max-cost-usd"
            )
        self._version: str | None = None
        self._versions: set[str] = set()
        self._cases = suite.cases
        self._suite_files = [suite.folder / suite.file, *suite.folder.glob("holodeck-action.y*ml")]
        self._guard: Guard | None = None
        self.left = None if target.keep is None else LeftFiles(redact)
        # Outside of the checkout, whose instructions and skills would be read.
        self.folder = Path(tempfile.mkdtemp(prefix="holodeck-agent-"))
        self.shared = self.folder / "shared"
        self.shared.mkdir()

    @property
    def replays(self) -> bool:
        """Whether turns are replayed, so that no program starts."""
        return self.recorded is not None and self.recorded.replays

    def with_version(self, trajectory: Trajectory) -> Trajectory:
        """Return a turn with the version of the program that answered, which is then one of `surroundings`."""
        version = trajectory.version or self._version
        if version is not None:
            self._versions.add(version)
            self.surroundings = {self.adapter.program: ", ".join(sorted(self._versions))}
        return replace(trajectory, version=version)

    @property
    def notices(self) -> tuple[str, ...]:
        """A sentence if the agent can change an exam that it takes, and one if it can read it."""
        return tuple(exam_notices(self._cases, self.fixture, self._suite_files))

    async def open(self, case: Case, trial: int) -> AgentSession:
        """Make the workspace of a trial; the first call also checks the program."""
        if self._ready is None:
            self._ready = asyncio.create_task(self._make_ready())
        try:
            await asyncio.shield(self._ready)
            folder = Path(tempfile.mkdtemp(prefix="trial-", dir=self.folder))
            before = await _in_thread(lambda: self._prepare(folder))
            return AgentSession(self, folder, before, case, trial)
        except WorkspaceError as error:
            raise AgentError(f"the workspace {error}", "cannot_start") from None
        except (OSError, ProgramError) as error:
            raise AgentError(f"the workspace cannot be made: {error}", "cannot_start") from None

    async def _make_ready(self) -> None:
        if self.target.confine != "none":
            await _in_thread(self._confine)
        command = self.target.setup
        if command is not None:
            given = (command, self.fixture, self.machine, self.cache, self.folder, self.redact)
            try:
                self.fixture = await _in_thread(lambda: set_up(*given))
            except (WorkspaceError, OSError) as error:
                raise AgentError(f"the workspace {error}", "cannot_start") from None
        if self.target.self_check and not self.replays and not isinstance(self.adapter, UnknownProgram):
            await self._check_itself()
        if self.adapter.tells_version and not self.replays:
            self._version = await _in_thread(lambda: self.machine.version(self.shared))
        # Once: what a trial has changed must not be taken for the state before.
        self._guard = await _in_thread(self._watch)

    def _confine(self) -> None:
        machine = self.machine
        found = choose_confinement(machine.program, self.adapter.files, self.checkout.folder, self.job, machine.code)
        if self.target.confine == "require" and found.kind != "bubblewrap":
            message = "confine: require needs bubblewrap (bwrap), which is not installed or not allowed on this machine"
            raise AgentError(message, "cannot_start")
        self.machine = replace(machine, confinement=found)

    async def _check_itself(self) -> None:
        machine, adapter = self.machine, self.adapter
        kept = KeptPasses(self.cache)
        if kept.has(machine, adapter):
            return
        folder = self.folder / "self-check"
        try:
            problem = await check_program(machine, adapter, folder, self.shared, self.redact)
        except OSError as error:
            problem = str(error)
        if problem is not None:
            message = f"{adapter.program} does not work on this machine (self-check without a model): {problem}"
            raise AgentError(message, "cannot_start")
        kept.add(machine, adapter)

    def _watch(self) -> Guard:
        machine = self.machine
        tracked = tracked_files(self.checkout.folder, machine.git, machine.git_environ, machine.code)
        # Where the suite is, the run writes its results.
        is_apart = self.fixture is not None and not holds_suite(self.fixture, self._suite_files)
        whole = [*hidden_places(self._cases), *([self.fixture] if self.fixture and is_apart else [])]
        path = machine.environ["PATH"] if has_exams(self._cases) else ""
        return Guard([*self._suite_files, *tracked, *own_files()], whole, library_folders(), path)

    def changed_file(self) -> Path | None:
        """Return a file of the checkout or of this program that was changed since the run began; None if none was."""
        return None if self._guard is None else self._guard.changed()

    def launch(self, folder: Path, session: str | None = None) -> Launch:
        """Return a start of the program in the folder of a trial."""
        return Launch(
            model=self.target.model,
            workspace=folder / "workspace",
            home=folder / "home",
            shared=self.shared,
            session=session,
            options=self.target.options,
            environ=self.machine.environ,
        )

    def _prepare(self, folder: Path) -> Snapshot:
        self.machine.make_folders(folder, self.adapter, self.launch(folder))
        if self.fixture is not None:
            copy_folder(self.fixture, folder / "workspace", any_links=self.target.setup is not None)
        if not self.replays:
            self.machine.commit_workspace(folder, everything=self.target.setup is None)
        return snapshot(folder / "workspace")

    def keep_files(self, case_id: str, trial: TrialRecord, folder: GivenPath) -> None:
        """Write the files that a trial changed to the run's folder, if the trial did not pass."""
        if self.left is not None:
            self.left.keep(case_id, trial, folder)

    async def close(self) -> None:
        """Remove all workspaces, and finish the recording."""
        if self._ready is not None:
            self._ready.cancel()
        if self.recorded is not None:
            self.recorded.close()
        await _in_thread(lambda: shutil.rmtree(self.folder, ignore_errors=True))


class AgentSession(Session):
    """One trial: a workspace, and a session of the program that each turn continues."""

    def __init__(
        self,
        agent: AgentProgram,
        folder: Path,
        before: Snapshot,
        case: Case,
        trial: int,
    ) -> None:
        self._agent, self._folder, self._before, self._case = agent, folder, before, case
        self._checks = [checks_of(turn) for turn in case.turns]
        self._trial, self._prompts, self._recorded_until = trial, list[str](), before
        self._session: str | None = None
        self._used: Tokens | None = None
        self._cost_usd: float | None = None
        self._turns = 0
        self._failed = False
        self._running: ProgramRun | None = None
        self._partial = PartialTurn()

    @property
    def workspace(self) -> Path:
        """The folder in which the agent works."""
        return self._folder / "workspace"

    async def send(self, turn: Turn) -> Reply:
        """Start the program with the turn's input, and wait for its end."""
        if self._failed:
            raise AgentError("the program was stopped after an earlier turn failed", "session_ended")
        if self._turns and self._session is None:
            raise AgentError(
                f"{self._agent.adapter.program} has no session that a second turn could continue", "session_ended"
            )
        self._failed, self._partial = True, PartialTurn()
        self._prompts.append(turn.input)
        recorded = self._agent.recorded
        request = {} if recorded is None else recorded.request(self._trial, self._prompts)
        if recorded is not None and recorded.replays:
            played = await _in_thread(lambda: recorded.play(request, self._folder))
        else:
            played = await self._start(turn)
        reply = await _in_thread(lambda: self._reply(played.finished))
        self._partial = PartialTurn(reply.tool_invocations, reply.usage, reply.metadata)
        if recorded is not None and not recorded.replays and (reply.error is None or reply.error.kind == "agent"):
            await _in_thread(lambda: self._record(recorded, request, played))
        self._failed = reply.error is not None
        self._turns += 1
        return replace(reply, model_ms=1000 * played.seconds)

    async def _start(self, turn: Turn) -> PlayedTurn:
        """Start the program, and wait for its end."""
        agent = self._agent
        launch = agent.launch(self._folder, self._session)
        started = time.monotonic()
        if self._running is not None:
            self._running.close()
        self._running = agent.machine.start(agent.adapter, launch, self._folder, turn.input, agent.max_bytes)
        running = self._running
        try:
            finished = await running.wait(agent.target.max_calls, agent.adapter)
        except BaseException:
            # Now: later, the case's deadline may have removed the workspace, and other trials would wait.
            self._partial = await _in_thread(lambda: self._read_partial(running))
            raise
        return PlayedTurn(finished, round(time.monotonic() - started, 4))

    def _record(self, recorded: RecordedTurns, request: dict[str, Any], played: PlayedTurn) -> None:
        """Store a turn with the changes since the last one.

        Raises:
            AgentError: the changes are too large, or the recording cannot be written.
        """
        lines = played.finished.stored_lines(self._agent.adapter, self._folder / "home", self._session)
        try:
            after = snapshot(self.workspace)
            files = stored_changes(self.workspace, self._recorded_until, after, recorded.redact)
        except WorkspaceError as error:
            raise AgentError(f"the workspace {error}", "cassette_unwritable") from None
        recorded.keep(request, played, lines, self._folder, files)
        self._recorded_until = after

    def _reply(self, finished: Finished) -> Reply:
        agent = self._agent
        trajectory = agent.with_version(finished.trajectory(agent.adapter, self._folder / "home", self._session))
        if self._session is not None and trajectory.session not in (None, self._session):
            trajectory = replace(trajectory, ended=OTHER_SESSION)
        self._session = trajectory.session or self._session
        if trajectory.ended == NO_END:
            reason = f"{NO_END.reason}{finished.last_words(agent.redact)}"
            trajectory = replace(trajectory, ended=Ended(NO_END.how, reason))
        confined = agent.machine.confinement.kind
        return reply_of(
            self._of_turn(trajectory), self.workspace, agent.target, agent.max_bytes, agent.redact, confined
        )

    async def complete_reply(self, reply: Reply) -> Reply:
        """Return the reply with the facts of the workspace; the commands of the turn's checks run for them."""
        # A turn in error is not graded, but what it did is kept.
        checks = () if reply.error is not None else self._checks[min(self._turns, len(self._checks)) - 1]
        try:
            facts = await _in_thread(lambda: self._facts(checks))
        except WorkspaceError as error:
            facts = {}
            reply = replace(reply, error=reply.error or ReplyError(f"the workspace {error}", "agent"))
        # After the commands, which run what the agent wrote.
        changed = await _in_thread(self._agent.changed_file)
        if changed is not None:
            message = f"{changed} was changed while the agent worked, so that no verdict can be trusted"
            return replace(reply, error=ReplyError(message, "infrastructure"))
        return replace(reply, metadata={**(reply.metadata or {}), **({"workspace": facts} if facts else {})})

    def _facts(self, checks: Sequence[WorkspaceCheck | WorkspaceTextMetric]) -> dict[str, Any]:
        """Return the facts that the checks of a turn read.

        Raises:
            WorkspaceError: the workspace cannot be read.
        """
        facts = self._changes()
        if self._agent.left is not None:
            facts["kept"] = self._agent.left.place(self._case.id, self._trial)
        paths = sorted({path for check in checks for path in check.kept_paths()})
        facts["files"] = {name: _kept_file(self.workspace, name) for name in paths}
        given = [check.changed.only for check in checks if isinstance(check, ChangedMetric)]
        only = [patterns for patterns in given if patterns is not None]
        commands = {check.key: check for check in checks if isinstance(check, CommandMetric)}
        facts["commands"] = {key: self._exam(check, facts["changed"], only) for key, check in commands.items()}
        # A name of a file may be no text.
        found: dict[str, Any] = make_storable(facts)
        return found

    def _changes(self) -> dict[str, Any]:
        agent = self._agent
        fixture, folder = agent.fixture, self._folder
        return changes(
            self.workspace, self._before, fixture, lambda names: agent.machine.ignored(fixture, names, folder)
        )

    def _exam(self, check: CommandMetric, changed: Sequence[Any], only: Sequence[Sequence[str]]) -> dict[str, Any]:
        """Return the result of a command in its own tree, or the problem with the tree."""
        # The agent must not have known the place.
        agent, place = self._agent, Path(tempfile.mkdtemp(prefix="exam-", dir=self._folder))
        command, hidden = check.command, check.hidden
        environ = chosen(agent.machine.environ)
        try:
            tree, any_links = place / "tree", agent.target.setup is not None
            make_tree(tree, agent.fixture, self.workspace, changed, only, command.hidden, any_links=any_links)
            if hidden is not None:
                hidden.copy_to(tree)
            ended = run_shell(
                *(command.run, command.timeout_s, tree, place, environ, agent.machine.code, agent.redact),
                confinement=agent.machine.confinement,
                most_bytes=MOST_WRITTEN,
            )
            return ended if hidden is None else {**ended, "hidden": hidden.digest()}
        except (WorkspaceError, OSError) as error:
            return {"problem": str(error)}
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _of_turn(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory with the tokens and the cost of this turn instead of the session's."""
        tokens, cost, totals = trajectory.tokens, trajectory.cost_usd, self._agent.adapter.totals
        if tokens is not None and self._used is not None and "tokens" in totals:
            trajectory = replace(trajectory, tokens=tokens.since(self._used))
        if cost is not None and self._cost_usd is not None and "cost" in totals:
            trajectory = replace(trajectory, cost_usd=max(0.0, cost - self._cost_usd))
        self._used, self._cost_usd = tokens or self._used, cost if cost is not None else self._cost_usd
        return trajectory

    def partial_turn(self) -> PartialTurn:
        """Return the calls, tokens and changes of a turn that was stopped."""
        return self._partial

    def _read_partial(self, stopped: ProgramRun) -> PartialTurn:
        agent = self._agent
        so_far = stopped.so_far().trajectory(agent.adapter, self._folder / "home", self._session)
        trajectory = agent.with_version(so_far)
        try:
            done = self._changes()
        except WorkspaceError:
            done = {}
        confined = agent.machine.confinement.kind
        return partial_of(self._of_turn(trajectory), self.workspace, agent.target, done, confined)

    async def close(self) -> None:
        """Stop the program, and remove the workspace."""
        if self._running is not None:
            self._running.close()
        await _in_thread(self._leave)

    def _leave(self) -> None:
        left = self._agent.left
        if left is not None:
            left.hold(self._case.id, self._trial, self.workspace, self._before)
        shutil.rmtree(self._folder, ignore_errors=True)


def _kept_file(workspace: Path, name: str) -> dict[str, Any]:
    """Return the facts of a place for the record: whether it exists, and its text if it is a file with a small text."""
    path = workspace / name
    if not os.path.lexists(path):
        return {"exists": False}
    if not path.is_file() or not path.resolve().is_relative_to(workspace.resolve()):
        return {"exists": True, "is_file": False}
    if path.stat().st_size > MOST_TEXT:
        return {"exists": True, "is_large": True}
    return {"exists": True, "text": small_text(path.resolve())}


async def _in_thread(call: Callable[[], T]) -> T:
    return await asyncio.wrap_future(in_daemon_thread(call))
