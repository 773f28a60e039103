"""A run: a suite with its settings, and what is open for it while it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.github.annotations import locate_folder
from holodeck_action.record.own_terms import OwnPlan
from holodeck_action.record.record import BaseRun, Record, TrialRecord
from holodeck_action.record.result_files import BaseResults
from holodeck_action.record.serialization import to_json
from holodeck_action.run.conditions import unreported_tools_notices
from holodeck_action.run.journal import Journal, ResumedRun
from holodeck_action.run.loading import LoadedSuite, redactor_of_loaded
from holodeck_action.run.options.settings import ModelCalls, Settings
from holodeck_action.run.shards import Part
from holodeck_action.run.stages import StagedSuite
from holodeck_action.run.trial_plans import TrialKey
from holodeck_action.run.used_files import UsedFiles
from holodeck_action.scoring.exam_results import NO_EXAMS, Exams
from holodeck_action.suite.checkout import Checkout, head_commit
from holodeck_action.suite.model.targets import AddedTarget, AnyTarget, ModelTarget, RecordedTarget
from holodeck_action.suite.values import Case
from holodeck_action.targets.protocol import Agent
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.redaction import Redactor
from holodeck_action.workers.pool import WorkerPool

if TYPE_CHECKING:
    from holodeck_action.llm.limits.budget import Budget
    from holodeck_action.llm.limits.charges import Charges
    from holodeck_action.llm.wire import Wire
    from holodeck_action.run.conversations import Users
    from holodeck_action.scoring.judges import Judges
    from holodeck_action.scoring.reuse import Reuse
    from holodeck_action.targets.own_model.case_files import CaseFiles
    from holodeck_action.targets.own_model.own_agent import OwnAgent


_SHOWN = 10


class MissingBase(Struct, frozen=True):
    """The reason why a base is missing, and a remedy, in one sentence."""

    reason: str


class FoundBase(Struct, frozen=True):
    """The results of a base, and its description for the record."""

    results: BaseResults
    run: BaseRun


class BaseSide(Struct, frozen=True):
    """The role of a base, whose agent runs at the same time as that of the suite to compare with it (the head).

    Attributes:
        unpaired: the base suite's cases that do not run because the head lacks them or has changed them.
        run: the base's description for the record.
        folder: the base suite's folder in the repository; None if it is not known.
        required: whether the run is refused if the base cannot run.
        own: the base suite's own gates, metrics and cases, for the record.
        calls: how models would be called by the base suite's own settings.
    """

    unpaired: tuple[Case, ...]
    run: BaseRun
    folder: str | None
    required: bool
    own: OwnPlan
    calls: ModelCalls


class StoredRun(Struct, frozen=True):
    """A record whose answers are graded again.

    Attributes:
        record: the record of the earlier run.
        digest: digest of the record's canonical form.
        cases: the suite's cases that are in the record, in the suite's order, with the record's number of trials.
        trials: the record's trials, by the suite's case ids and trial index.
        left_out: names of the suite's cases that are not in the record.
    """

    record: Record
    digest: str
    cases: tuple[Case, ...]
    trials: Mapping[TrialKey, TrialRecord]
    left_out: tuple[str, ...]

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices for the new record, each one sentence."""
        origin = self.record.provenance
        commit = "" if origin.commit is None else f" at commit {origin.commit[:12]}"
        found = [f"judged again: the answers are from record {self.digest[:12]} of {origin.target}{commit}"]
        if self.left_out and not origin.filters:
            names = ", ".join(self.left_out[:_SHOWN])
            found.append(f"{len(self.left_out)} case(s) of the suite have no answer in that record: {names}")
        return tuple(found)

    @property
    def stop_reason(self) -> str | None:
        """Reason why the record's run stopped early; None if the run was complete."""
        stopped = self.record.stopped
        return None if stopped is None else f"the run that gave the answers had stopped early: {stopped}"


class Resources(Struct, frozen=True):
    """What is open for a run, and is closed after it.

    `agent` is None if stored answers are graded; `own` is the same agent if it is the suite's own model, else None.
    `budgets` limit the model calls; `charges` counts the calls that another agent reports, None if no budget limits
    them. `wire` makes the model calls; None if there are no calls. `judges` is None if no metric needs a judge; `reuse`
    has the verdicts of earlier runs, None if judges are always called. `files` reads the files of cases; None if cases
    have no files. `used` collects the files that the suite's code uses.
    `users` plays the users of cases; None if no case has a simulated user.
    """

    agent: Agent | None
    own: OwnAgent | None
    budgets: tuple[Budget, ...]
    charges: Charges | None
    wire: Wire | None
    judges: Judges | None
    reuse: Reuse | None
    files: CaseFiles | None
    target_pool: WorkerPool
    used: UsedFiles
    redactor: Redactor
    users: Users | None = None

    async def close(self) -> None:
        """Close everything."""
        if self.reuse is not None:
            self.reuse.close()
        for held in (self.agent, self.wire, self.files, self.target_pool):
            if held is not None:
                await held.close()


class Run(LoadedSuite, frozen=True, kw_only=True):
    """A run of a suite: the loaded suite, its settings, and its resources once it is open.

    `target_files` has the folder that paths in the target are relative to, and the files that may be read. `stored` is
    an earlier run whose answers are graded; None to run the target. `part` has the cases of this shard; None if the run
    has no shards. `graded_by` is the suite whose cases, metrics and judges apply; None if the suite's own apply.
    `variant` describes how a base differs from the suite in the file; empty if it does not differ.

    `folder` is the folder for results; None to write no files. `inputs` are what the trials depend on in addition to
    the suite's files and target. `base` is the base that runs with the suite, or the stored results of one, or the
    reason why it is missing; None if no base is requested, or before it was looked for. `as_base` describes this run as
    a base; None if it is not a base.

    `opened` is None before the run is open. `identity`, `digests` (of the files and settings that trials depend on) and
    `resumed` (the finished trials of an interrupted run) are empty without a folder. `exams` are the results of the
    judges' probes, empty before they were made. `journal` gets the trials; None if there is no folder, or before it was
    started. `ended` is the record; None before the run has ended.
    """

    settings: Settings
    cases: tuple[Case, ...]
    target: AnyTarget
    target_files: Checkout
    stored: StoredRun | None = None
    part: Part | None = None
    graded_by: LoadedSuite | None = None
    variant: str = ""
    folder: GivenPath | None = None
    inputs: Mapping[str, Any] = {}
    base: Run | FoundBase | MissingBase | None = None
    as_base: BaseSide | None = None
    opened: Resources | None = None
    identity: Mapping[str, Any] = {}
    digests: Mapping[str, str] = {}
    resumed: ResumedRun = ResumedRun({}, 0, ())
    exams: Exams = NO_EXAMS
    journal: Journal | None = None
    ended: Record | None = None

    def __repr__(self) -> str:
        # Short: asyncio formats its main task when it ends, with the task's result.
        return f"Run({self.place!r})"

    @property
    def resources(self) -> Resources:
        """What is open for the run; only after it was opened."""
        assert self.opened is not None
        return self.opened

    @property
    def record(self) -> Record:
        """The record of the run; only after it has ended."""
        assert self.ended is not None
        return self.ended

    @property
    def base_record(self) -> Record | None:
        """The record of the base; None if there is none, or if the base runs with the suite and has not ended."""
        if isinstance(self.base, Run):
            return self.base.ended
        return self.base.results.results.record if isinstance(self.base, FoundBase) else None

    @property
    def redactor(self) -> Redactor:
        """Redactor for the secrets of the suite and its environment; once open, also for those of agent and judges."""
        return redactor_of_loaded([self]) if self.opened is None else self.opened.redactor

    @property
    def records_answers(self) -> bool:
        """Whether `--record` stores the target's answers, and `--replay` repeats them."""
        target = self.target
        return isinstance(target, ModelTarget) or (isinstance(target, AddedTarget) and target.recorded)

    @property
    def commit(self) -> str | None:
        """The commit that is evaluated; if stored answers are graded, the commit in their record."""
        return head_commit(self.suite.folder) if self.stored is None else self.stored.record.provenance.commit

    @property
    def repository_folder(self) -> str | None:
        """The path of the suite's folder in its repository; None if it is in no repository."""
        return locate_folder(self.suite.folder, self.environ).folder

    @property
    def place(self) -> str:
        """Path of the suite's file relative to the current folder, followed by its variant in parentheses."""
        place = LoadedSuite.place.__get__(self)
        return f"{place} ({self.variant})" if self.variant else place

    @property
    def base_files(self) -> Checkout:
        """The folder that the path of a results file to compare with is relative to, and the files that may be read."""
        return self.suite.checkout if self.flags.baseline is None else Checkout.unbounded(self.context.cwd)

    @property
    def own_cases(self) -> tuple[Case, ...]:
        """The cases of this shard, or all cases."""
        return self.cases if self.part is None else tuple(case for case in self.cases if case.id in self.part.ids)

    @property
    def shards(self) -> int:
        """The number of shards; 1 if the run has no shards."""
        return 1 if self.part is None else self.part.shard.count

    @property
    def grading(self) -> LoadedSuite:
        """The suite whose metrics and judges grade the answers."""
        return self.graded_by or self

    @property
    def confirms_regressions(self) -> bool:
        """Whether cases that got worse get further trials, either new or, when a record is graded again, stored."""
        if not self.settings.compared or self.settings.baseline.on_case_regression != "confirm":
            return False
        return self.stored is not None or not isinstance(self.target, RecordedTarget)

    @property
    def staged(self) -> StagedSuite:
        """What extensions see of the run."""
        return StagedSuite(
            *(self.suite, self.display_folder, self.environ, self.code, self.settings),
            *(self.target, self.target_files, self.redactor),
        )

    @property
    def sides(self) -> tuple[Run, ...]:
        """This run, and its base if one runs."""
        return (self, self.base) if isinstance(self.base, Run) else (self,)

    @property
    def dependency_digests(self) -> Mapping[str, str]:
        """Digests of the trials' inputs except the suite's files, by a description of the input without secrets."""
        imported = {f"the imported module {name}": digest for name, digest in self.resources.used.imports.items()}
        found: Mapping[str, str] = self.redactor.value({**self.digests, **imported})
        return dict(sorted(found.items()))

    @property
    def notices(self) -> Iterator[str]:
        """Notices so far; more may be added while the suite runs."""
        held = self.resources
        if held.agent is not None:
            yield from held.agent.notices
            yield from unreported_tools_notices(held.agent, self.cases)
            if held.agent.unlimited and not held.budgets:
                yield held.agent.unlimited
        for source in (held.wire, held.charges, held.reuse, self.exams):
            yield from () if source is None else source.notices

    def keep_trial(self, case: Case, trial: TrialRecord) -> None:
        """Append a trial that ran to the journal, and let its agent keep files that it left."""
        if self.journal is not None:
            self.journal.append(self._recorded_id(case), to_json(trial))
        agent = self.resources.agent
        if self.folder is not None and agent is not None:
            agent.keep_files(case.id, trial, self.folder)

    def resumed_keys(self, cases: Sequence[Case]) -> Mapping[TrialKey, TrialKey]:
        """Return the journal's keys of the trials of cases, which have redacted ids, by the keys with original ids."""
        own = {self._recorded_id(case): case.id for case in cases}
        return {(own[key[0]], key[1]): key for key in self.resumed.trials if key[0] in own}

    def _recorded_id(self, case: Case) -> str:
        return self.redactor.case_id(case.id, case.content_hash)

    async def close(self) -> None:
        """Close the run and its base, except their journals: trials that are cancelled may still write there."""
        for side in reversed(self.sides):
            await side.resources.close()

    def close_journals(self) -> None:
        """Close the journals of the run and its base, after the event loop in which they ran has ended."""
        for side in self.sides:
            if side.journal is not None:
                side.journal.close()


def join_sides(sides: Sequence[Run]) -> Run:
    """Return the first of the sides of a run; the second one, if there is one, is its base."""
    return replace(sides[0], base=sides[1]) if len(sides) > 1 else sides[0]
