"""Opens suites before anything runs: builds agents and judges, and reads the journals of interrupted runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.consumption import count_reused_verdicts
from holodeck_action.record.agent_errors import TargetError
from holodeck_action.record.disk import Disk
from holodeck_action.record.record import Record, TrialRecord
from holodeck_action.record.result_files import BASE_FOLDER
from holodeck_action.record.serialization import to_json
from holodeck_action.run.bases.base_suites import BaseSuite
from holodeck_action.run.bases.baselines import MissingBase
from holodeck_action.run.conditions import unreported_tools_notices
from holodeck_action.run.identity import ImportedFiles, file_digests, named_modules, run_identity
from holodeck_action.run.journal import (
    JOURNAL_FILE,
    Journal,
    JournalError,
    ResumedRun,
    read_for_resume,
    set_aside_journal,
)
from holodeck_action.run.loading import with_lines
from holodeck_action.run.model_calls import (
    judging_environment,
    make_budget,
    make_judges,
    make_own_agent,
    make_reuse,
    make_users,
    make_wire,
    model_environment,
)
from holodeck_action.run.preflight import PreparedSuite, unreported_gates
from holodeck_action.run.stages import StagedSuite
from holodeck_action.run.trial_plans import TrialKey
from holodeck_action.run.used_files import UsedFiles
from holodeck_action.scoring.exam_results import NO_EXAMS, Exams
from holodeck_action.seam import registry
from holodeck_action.suite.applicability import judged_metrics
from holodeck_action.suite.configuration_errors import ConfigurationError, LocatedProblem, map_texts, target_problems
from holodeck_action.suite.model.targets import AnyTarget, HttpTarget, ModelTarget, RecordedTarget
from holodeck_action.suite.values import Case, Suite
from holodeck_action.targets.factory import build_agent
from holodeck_action.targets.protocol import Agent
from holodeck_action.targets.spans import Receivers
from holodeck_action.text.credentials import credentials_in
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets
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


BaseToRun = BaseSuite | MissingBase | None
"""The base to run at the same time as a suite, or the reason why it cannot run; None if no base is to run."""


class OpenSuite(Struct, frozen=True):
    """A suite that is ready to run, with its agent and any finished trials of an interrupted run.

    `folder` is the folder for results; None to write no files. `agent` is None if stored answers are graded; `own` is
    the same agent if it is the suite's own model, else None. `budgets` limit the model calls; `charges` counts the
    calls that another agent reports, None if no budget limits them. `wire` makes the model calls; None if there are no
    calls. `judges` is None if no metric needs a judge; `reuse` has the verdicts of earlier runs, None if judges are
    always called. `files` reads the files of cases; None if cases have no files. `imported` collects the files that the
    suite's code imports, `used` those that grading code uses. `base` is the base that runs with the suite, or the
    reason why it does not run; None if no base is requested. `as_base` describes this suite as a base; None if it is
    not a base. `digests` cover the files and settings that trials depend on. `users` plays the users of cases; None if
    no case has a simulated user. `exams` are the results of the judges' probes, empty before they were made.
    `journal` gets the trials; None if there is no folder, or before it was started.
    """

    prepared: PreparedSuite
    agent: Agent | None
    own: OwnAgent | None
    budgets: tuple[Budget, ...]
    charges: Charges | None
    wire: Wire | None
    judges: Judges | None
    reuse: Reuse | None
    files: CaseFiles | None
    target_pool: WorkerPool
    imported: ImportedFiles
    used: UsedFiles
    redactor: Redactor
    folder: GivenPath | None = None
    identity: Mapping[str, Any] = {}
    resumed: ResumedRun = ResumedRun({}, 0, ())
    base: OpenSuite | MissingBase | None = None
    as_base: BaseSuite | None = None
    digests: Mapping[str, str] = {}
    users: Users | None = None
    exams: Exams = NO_EXAMS
    journal: Journal | None = None

    @property
    def dependency_digests(self) -> Mapping[str, str]:
        """Digests of the trials' inputs except the suite's files, by a description of the input without secrets."""
        imported = {f"the imported module {name}": digest for name, digest in self.imported.digests.items()}
        found: Mapping[str, str] = self.redactor.value({**self.digests, **imported})
        return dict(sorted(found.items()))

    @property
    def staged(self) -> StagedSuite:
        """What extensions see of the suite."""
        return self.prepared.staged(self.redactor)

    @property
    def sides(self) -> tuple[OpenSuite, ...]:
        """This suite, and its base if one runs."""
        return (self, self.base) if isinstance(self.base, OpenSuite) else (self,)

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices so far; more may be added while the suite runs."""
        return (
            *(() if self.agent is None else self.agent.notices),
            *(() if self.agent is None else unreported_tools_notices(self.agent, self.prepared.cases)),
            *(() if self.wire is None else self.wire.notices),
            *(() if self.charges is None else self.charges.notices),
            *(() if self.reuse is None else self.reuse.notices),
            *self.exams.notices,
        )

    def close_journals(self) -> None:
        """Close the journals of the suite and its base, after the event loop in which it ran has ended."""
        for side in self.sides:
            if side.journal is not None:
                side.journal.close()

    def keep_trial(self, case: Case, trial: TrialRecord) -> None:
        """Append a trial that ran to the journal."""
        if self.journal is not None:
            self.journal.append(self.redactor.case_id(case.id, case.content_hash), to_json(trial))

    def resumed_trials(self, cases: Sequence[Case]) -> Mapping[TrialKey, TrialRecord]:
        """Return the journaled trials of cases by original case id; the journal has redacted ids."""
        own = {self.redactor.case_id(case.id, case.content_hash): case.id for case in cases}
        journaled = self.resumed.trials.items()
        return {(own[name], index): trial for (name, index), trial in journaled if name in own}

    async def close(self) -> None:
        """Close the suite and its base, except their journals: trials that are cancelled may still write there."""
        if isinstance(self.base, OpenSuite):
            await self.base.close()
        if self.reuse is not None:
            self.reuse.close()
        for held in (self.agent, self.wire, self.files, self.target_pool):
            if held is not None:
                await held.close()

    def complete_record(self, record: Record) -> Record:
        """Return the record with the number and cost of model calls, judges' configurations and cards, notices about
        model calls and embeddings, and a base's own gates added.
        """
        if self.wire is not None:
            calls = replace(self.wire.model_calls, reused=count_reused_verdicts(record.cases))
            told = tuple(map(self.redactor.text, self.wire.notices))
            record = replace(record, run=replace(record.run, model_calls=calls, notices=told))
        if self.judges is not None:
            from holodeck_action.scoring.configurations import add_configurations

            grading = self.prepared.grading
            record = add_configurations(
                record, grading.suite, grading.cards, judging_environment(self.prepared), self.redactor
            )
            notices = (*record.notices, *self.redactor.value(self.judges.expected_texts.notices))
            record = replace(record, notices=notices, probes=self.exams.probes)
        if self.as_base is not None:
            from holodeck_action.run.own_terms import with_own_terms

            environ = model_environment(self.prepared)
            record = with_own_terms(record, self.prepared.suite, self.as_base.own, environ, self.redactor)
        return record


class ToOpen(Struct, frozen=True):
    """A suite to open, the folder for its results (None to write no files), and the base that runs with it.

    `inputs` are what its trials depend on in addition to the suite's files and target.
    """

    prepared: PreparedSuite
    folder: GivenPath | None = None
    base: BaseToRun = None
    inputs: Mapping[str, Any] = {}


def open_suites(
    wanted: Sequence[ToOpen],
    shared_budget: Budget | None = None,
    *,
    resume: bool = False,
    siblings: bool = False,
    host: OpenSuite | None = None,
) -> list[OpenSuite]:
    """Open suites before anything runs.

    Args:
        wanted: the suites.
        shared_budget: budget of all suites together.
        resume: whether to read the journals of an interrupted run.
        siblings: whether the suites are variants of one suite, which run at the same time over one wire with one
            budget; the first decides the settings of both.
        host: open suite, closed last, whose wire and budgets the siblings share; None to share the first one's.

    Raises:
        ConfigurationError: the problems of all suites.
    """
    suites: list[OpenSuite] = []
    receivers, items = Receivers(), [each.prepared for each in wanted]
    problems: list[str | LocatedProblem] = []
    for item, each in zip(items, wanted, strict=True):
        base = each.base
        # All that run at the same time must mask the secrets of all.
        beside = items if siblings else [item, base.prepared] if isinstance(base, BaseSuite) else [item]
        redactor = redactor_of(*beside)
        try:
            head = suites[0] if suites else host
            if head is not None and not suites:
                # Files are closed with the variants.
                head = replace(head, files=_case_files(item, redactor))
            ready = _open(item, redactor, shared_budget, receivers, head if siblings else None)
            suites.append(ready)
            suites[-1] = ready = _attach_folder(ready, each.folder, each.inputs, resume=resume)
            if ready.agent is not None and not siblings:
                gates = item.settings.gates
                problems += unreported_gates(gates, item.suite, ready.agent, item.target, item.display_folder)
            suites[-1] = replace(ready, base=_open_base(ready, base, receivers, resume=resume))
        except TargetError as error:
            problems += _target_problems(item, error, redactor)
        except JournalError as error:
            problems.append(redactor.text(str(error)))
    if problems:
        asyncio.run(close_all(suites))
        located = with_lines(problems, items)
        raise ConfigurationError(list(dict.fromkeys(located)) if siblings else located)
    return suites


def _target_problems(item: PreparedSuite, error: TargetError, redactor: Redactor) -> list[str | LocatedProblem]:
    wrong = target_problems(
        item.suite, item.display_folder, str(error), error.problems, target_text=item.written_target
    )
    return [map_texts(problem, redactor.text) for problem in wrong]


def redactor_of(*prepared: PreparedSuite) -> Redactor:
    """Return a redactor that masks the secrets of suites in everything that their run stores or shows."""
    return Redactor({secret for item in prepared for secret in secrets_of(item.suite, item.environ, item.target)})


def secrets_of(suite: Suite, environ: Mapping[str, str], target: AnyTarget | None = None) -> Set[str]:
    """Return the secrets of a suite, and those of its target if one is given."""
    found = suite.secrets | environment_secrets(environ)
    if isinstance(target, HttpTarget):
        found |= set(credentials_in(target.url))
    for key in registry.sections().values():
        section = getattr(suite.agent, key.name, None)
        if key.secrets and section is not None:
            found |= registry.resolve(key.secrets)(section)
    if suite.agent.tools:
        for tool in registry.tools().values():
            if tool.secrets:
                found |= registry.resolve(tool.secrets)(suite.agent.tools, suite.checkout)
    return found


def _open_base(
    open_suite: OpenSuite, base: BaseToRun, receivers: Receivers, *, resume: bool
) -> OpenSuite | MissingBase | None:
    """Open the base that runs with a suite; return a `MissingBase` or None unchanged.

    Raises:
        ConfigurationError: the base is required and cannot run.
        JournalError: the base's journal cannot be resumed.
    """
    if not isinstance(base, BaseSuite):
        return base
    item, folder = base.prepared, open_suite.folder
    try:
        opened_base = replace(_open(item, open_suite.redactor, None, receivers, open_suite), as_base=base)
        # Its answers are graded like those of the suite it runs beside.
        grading = {f"beside_{name}": open_suite.identity.get(name) for name in ("cases", "code")}
        inputs = {"commit": base.run.commit, **grading}
        into = None if folder is None else folder / BASE_FOLDER
        return _attach_folder(opened_base, into, inputs, resume=resume)
    except TargetError as error:
        problems = _target_problems(item, error, open_suite.redactor)
        if base.required:
            raise ConfigurationError(with_lines(problems, [item])) from error
        return MissingBase(f"the base cannot be run: {'; '.join(map(str, problems))}")


def _open(
    suite: PreparedSuite,
    redactor: Redactor,
    shared_budget: Budget | None,
    receivers: Receivers,
    head: OpenSuite | None = None,
) -> OpenSuite:
    """Open a suite; if `head` is given, the suite shares the head's wire, budgets and file readers."""
    # One process for each conversation, as a turn's deadline runs while it waits for one.
    imported = ImportedFiles(suite.suite.checkout, named_modules(suite.suite, suite.target))
    used = UsedFiles(suite.suite.checkout, suite.started)

    def note_tested(files: Sequence[str]) -> None:
        imported(files)
        used.add_tested(files)

    pool = WorkerPool(
        suite.suite.folder,
        environ=suite.environ,
        cwd=suite.suite.checkout.cwd,
        size=suite.settings.least_concurrency,
        code=suite.code,
        redact=redactor.text,
        on_import=note_tested,
        interpreter=suite.interpreter,
        spans=bool(suite.suite.policy.spans),
        import_s=suite.suite.policy.limits.import_timeout_s,
    )
    settings, target = suite.settings, suite.target
    files: CaseFiles | None = None
    simulated: tuple[Case, ...] = ()
    if suite.stored is None:
        files = _case_files(suite, redactor) if head is None else head.files
        simulated = tuple(case for case in suite.own_cases if case.simulation is not None)
    limits = (make_budget(settings.max_cost_usd, settings.max_tokens, suite.shards), shared_budget)
    budgets = tuple(budget for budget in limits if budget is not None) if head is None else head.budgets
    judged = bool(judged_metrics(suite.own_cases))
    wire: Wire | None = None
    if judged or simulated or isinstance(target, ModelTarget):
        shared_wire = None if head is None else head.wire
        wire = make_wire(suite, redactor, budgets) if shared_wire is None else shared_wire.sibling()
    judges = make_judges(suite, wire) if judged and wire is not None else None
    reuse = make_reuse(suite, redactor, wire) if judged and wire is not None else None
    users = make_users(suite, simulated, wire) if simulated and wire is not None else None
    own: OwnAgent | None = None
    agent: Agent | None = None
    if isinstance(target, ModelTarget):
        assert wire is not None
        agent = own = make_own_agent(suite, redactor, wire, files, note_tested)
    elif suite.stored is None:
        agent = build_agent(
            suite.suite,
            target,
            checkout=suite.target_files,
            environ=suite.environ,
            max_bytes=settings.max_response_bytes,
            code=suite.code,
            pool=pool,
            redact=redactor.text,
            receivers=receivers,
        )
    return OpenSuite(
        prepared=suite,
        agent=agent,
        own=own,
        budgets=budgets,
        charges=None if agent is None else _make_charges(suite, agent, budgets),
        wire=wire,
        judges=judges,
        reuse=reuse,
        files=files,
        target_pool=pool,
        imported=imported,
        used=used,
        redactor=redactor,
        users=users,
    )


def _make_charges(suite: PreparedSuite, agent: Agent, budgets: Sequence[Budget]) -> Charges | None:
    """Return a counter of the model calls that an agent reports; None if no budget limits them."""
    telling = {"tokens", "cost"} - agent.unreported.keys()
    if not budgets or not telling or isinstance(suite.target, ModelTarget | RecordedTarget):
        return None
    from holodeck_action.llm.limits.charges import Charges

    return Charges(budgets)


def _attach_folder(
    open_suite: OpenSuite, folder: GivenPath | None, extra_inputs: Mapping[str, Any], *, resume: bool
) -> OpenSuite:
    """Return a suite with a folder for its results, and with the finished trials of an interrupted run; unchanged
    without a folder.

    Args:
        open_suite: the suite.
        folder: the folder for the results.
        extra_inputs: further inputs that the trials depend on, for the identity of the run.
        resume: whether to read the journal in the folder.

    Raises:
        TargetError: a file that the target needs cannot be read.
        JournalError: the journal in the folder cannot be resumed.
    """
    if folder is None:
        return open_suite
    item = open_suite.prepared
    environment = None if item.python is None else item.python.digest
    try:
        digests = file_digests(item.suite, item.target, item.target_files)
        identified = run_identity(item.suite, item.target, item.target_files, digests, environment)
        shard = {} if item.part is None else {"shard": str(item.part.shard), "split": item.part.shard.split}
        identity = open_suite.redactor.value({**identified, **shard, **extra_inputs})
    except OSError as error:
        raise TargetError(f"{error.filename}: cannot be read: {error.strerror}") from error
    resumed = (
        read_for_resume(folder / JOURNAL_FILE, identity, open_suite.imported.changed_files)
        if resume
        else open_suite.resumed
    )
    known = {"the settings of the target": str(identified["target_digest"]), **digests}
    if environment is not None:
        known["the packages of its code"] = environment
    return replace(open_suite, folder=folder, identity=identity, resumed=resumed, digests=known)


def _case_files(suite: PreparedSuite, redactor: Redactor) -> CaseFiles | None:
    """Return the reader of the cases' files; None if cases have no files.

    Raises:
        TargetError: the suite's model needs a package for reading files that is not installed.
    """
    if not any(turn.files for case in suite.own_cases for turn in case.turns):
        return None
    from holodeck_action.targets.own_model.case_files import CaseFiles, check_file_packages

    if isinstance(suite.target, ModelTarget):
        check_file_packages(suite.own_cases)
    settings = suite.settings
    return CaseFiles(
        suite.suite.checkout,
        file_timeout_s=settings.files.file_timeout_s,
        download_timeout_s=settings.files.download_timeout_s,
        cache=settings.files.cache,
        online=settings.calls.mode != "replay",
        environ=suite.environ,
        redact=redactor.text,
    )


def start_journals(suite: OpenSuite, disk: Disk, note: Callable[[str], None]) -> OpenSuite:
    """Return the suite with journals of it and its base; unchanged if it has no folder.

    Raises:
        ConfigurationError: an existing journal cannot be replaced.
    """
    folder, resumed = suite.folder, suite.resumed
    if folder is None:
        return suite
    path = folder.path / JOURNAL_FILE
    try:
        for notice in resumed.notices if resumed.keep_bytes else (*resumed.notices, *set_aside_journal(path)):
            note(notice)
        journal = Journal(path, suite.identity, resumed.keep_bytes, disk, len(suite.prepared.cases))
    except OSError as error:
        if error.filename is None:
            reason = (
                f"{folder / JOURNAL_FILE}: the journal cannot be written: {error.strerror}; nothing was run: make room"
            )
            raise ConfigurationError([f"{reason}, or give another --output-dir"]) from error
        place = folder.written_path(error.filename)
        raise ConfigurationError(
            [f"{place}: cannot be replaced: {error.strerror}; remove it or give another --output-dir"]
        ) from error
    suite.imported.notify(journal.append_imports)
    base = start_journals(suite.base, disk, note) if isinstance(suite.base, OpenSuite) else suite.base
    return replace(suite, journal=journal, base=base)


@contextmanager
def closing(suites: Sequence[OpenSuite]) -> Iterator[None]:
    """Close the suites that are left in a list at the end of the block; whoever runs a suite takes it from the list."""
    try:
        yield
    finally:
        if suites:
            asyncio.run(close_all(suites))
        for suite in suites:
            suite.close_journals()


async def close_all(suites: Sequence[OpenSuite]) -> None:
    """Close suites that were opened and did not run."""
    for opened in suites:
        await opened.close()
