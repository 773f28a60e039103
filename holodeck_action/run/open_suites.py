"""Suites opened: what they need is built and what an interrupted run left is read, before anything runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.consumption import reused_of
from holodeck_action.extensions.frameworks.spans.listening import Receivers
from holodeck_action.record.agent_errors import TargetError
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import BASE_FOLDER
from holodeck_action.run.bases.base_suites import BaseSuite
from holodeck_action.run.bases.baselines import MissingBase
from holodeck_action.run.conditions import silence_on_tools
from holodeck_action.run.identity import ImportedFiles, file_digests, named_modules, run_identity
from holodeck_action.run.journal import JOURNAL_FILE, JournalError, Resumed, read_for_resume
from holodeck_action.run.loading import with_lines
from holodeck_action.run.model_calls import (
    budget_of,
    judges_of,
    judging_environment,
    model_environment,
    own_agent_of,
    reuse_of,
    wire_of,
)
from holodeck_action.run.preflight import Prepared, untold_gates
from holodeck_action.seam import registry
from holodeck_action.suite.applicability import judged_metrics
from holodeck_action.suite.configuration_errors import ConfigurationError, Located, target_problems, through
from holodeck_action.suite.model.targets import AnyTarget, HttpTarget, ModelTarget, RecordedTarget
from holodeck_action.suite.values import Suite
from holodeck_action.targets.factory import build_agent
from holodeck_action.targets.protocol import Agent
from holodeck_action.text.credentials import credentials_in
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets
from holodeck_action.workers.pool import WorkerPool

if TYPE_CHECKING:
    from holodeck_action.llm.limits.budget import Budget
    from holodeck_action.llm.limits.charges import Charges
    from holodeck_action.llm.limits.leases import Leases
    from holodeck_action.llm.wire import Wire
    from holodeck_action.scoring.judges import Judges
    from holodeck_action.scoring.reuse import Reuse
    from holodeck_action.targets.own_model.case_files import CaseFiles
    from holodeck_action.targets.own_model.own import OwnAgent


BaseToRun = BaseSuite | MissingBase | None
"""What runs beside a suite, or why nothing does; None where nothing is to."""


class Opened(Struct, frozen=True):
    """A suite that can run: its agent is built, and what an interrupted run finished is read.

    `folder` is where its files go, None for nowhere. `agent` is None where stored answers are graded; `own` is the
    agent where it is the suite's own model. `budgets` limit its calls; `charges` counts what other agents say of
    theirs, None where they are not limited. `wire` carries the calls of models, None where
    none is asked; `judges` are those that grade, `reuse` has the verdicts of earlier runs (None: all are asked for).
    `files` reads the files of its cases, None where there are none. `imported` are the files of its code. `base` runs
    beside it, or is why nothing does; None where nothing is to. `beside` says what it is itself, where it runs beside
    another one. `digests` are those of files and settings that its trials depend on.
    """

    item: Prepared
    folder: GivenPath | None
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
    redactor: Redactor
    identity: Mapping[str, Any]
    resumed: Resumed
    base: Opened | MissingBase | None = None
    beside: BaseSuite | None = None
    digests: Mapping[str, str] = {}

    @property
    def depends(self) -> Mapping[str, str]:
        """Digests of what its trials depended on besides the suite's files, by what to call each, without secrets."""
        imported = {f"the imported module {name}": digest for name, digest in self.imported.digests.items()}
        found: Mapping[str, str] = self.redactor.value({**self.digests, **imported})
        return dict(sorted(found.items()))

    @property
    def sides(self) -> tuple[Opened, ...]:
        """The suite, and the one that runs beside it, if there is one."""
        return (self, self.base) if isinstance(self.base, Opened) else (self,)

    @property
    def notices(self) -> tuple[str, ...]:
        """What the reader should know; more may come while the suite runs."""
        return (
            *(() if self.agent is None else self.agent.notices),
            *(() if self.agent is None else silence_on_tools(self.agent, self.item.cases)),
            *(() if self.wire is None else self.wire.notices),
            *(() if self.charges is None else self.charges.notices),
            *(() if self.reuse is None else self.reuse.notices),
        )

    def begin_judging(self) -> None:
        """Start the process in which libraries grade, where some grade here and no verdicts of earlier runs may do."""
        if self.judges is not None and not self._may_reuse:
            self.judges.begin()

    def prepare_judges(self) -> None:
        """Prepare what judges need, under the same condition; a loop runs."""
        if self.judges is not None and not self._may_reuse:
            self.judges.prepare()

    @property
    def _may_reuse(self) -> bool:
        return self.reuse is not None and self.reuse.looks

    async def close(self) -> None:
        """Release what it holds, and what runs beside it."""
        if isinstance(self.base, Opened):
            await self.base.close()
        if self.reuse is not None:
            self.reuse.close()
        for held in (self.agent, self.wire, self.files, self.target_pool):
            if held is not None:
                await held.close()

    def completed(self, record: Record) -> Record:
        """Return a record with what the calls of models came to, how metrics were judged, and what judge cards tell."""
        if self.wire is not None:
            calls = replace(self.wire.model_calls, reused=reused_of(record.cases))
            record = replace(record, run=replace(record.run, model_calls=calls))
        if self.judges is not None:
            from holodeck_action.scoring.configurations import with_cards

            grading = self.item.grading
            record = with_cards(record, grading.suite, grading.cards, judging_environment(self.item), self.redactor)
        if self.beside is not None:
            from holodeck_action.run.own_terms import with_own_terms

            environ = model_environment(self.item)
            record = with_own_terms(record, self.item.suite, self.beside.own, environ, self.redactor)
        return record


def open_all(
    prepared: Sequence[Prepared],
    folders: Sequence[GivenPath | None],
    shared: Budget | None,
    *,
    resume: bool,
    besides: Sequence[BaseToRun],
    leases: Leases | None = None,
) -> list[Opened]:
    """Open what every suite needs before anything runs.

    Args:
        prepared: the suites.
        folders: where the files of each go, None for nowhere.
        shared: limits the calls of all of them together.
        resume: whether to read what an interrupted run finished.
        besides: what runs beside each suite.
        leases: of accounts whose limits hold across processes; None where this one has them alone.

    Raises:
        ConfigurationError: the problems of all suites.
    """
    suites: list[Opened] = []
    receivers = Receivers()
    problems: list[str | Located] = []
    for item, folder, base in zip(prepared, folders, besides, strict=True):
        # What one side must not show, the other must not either.
        redactor = redactor_of(item, base.item) if isinstance(base, BaseSuite) else redactor_of(item)
        try:
            suites.append(_open(item, redactor, shared, receivers, leases=leases))
            if folder is not None:
                suites[-1] = _in_folder(suites[-1], folder, {}, resume=resume)
            if (agent := suites[-1].agent) is not None:
                problems += untold_gates(item.settings.gates, item.suite, agent, item.target, item.shown)
            suites[-1] = replace(suites[-1], base=_open_base(suites[-1], base, receivers, resume=resume))
        except TargetError as error:
            wrong = target_problems(item.suite, item.shown, str(error), error.problems, written=item.written)
            problems += (through(problem, redactor.text) for problem in wrong)
        except JournalError as error:
            problems.append(redactor.text(str(error)))
    if problems:
        asyncio.run(close_all(suites))
        raise ConfigurationError(with_lines(problems, prepared))
    return suites


def redactor_of(*prepared: Prepared) -> Redactor:
    """Return what takes the secrets of suites out of everything that is kept or shown of their run."""
    return Redactor({secret for item in prepared for secret in secrets_of(item.suite, item.environ, item.target)})


def secrets_of(suite: Suite, environ: Mapping[str, str], target: AnyTarget | None = None) -> Set[str]:
    """Return the secrets of a suite; `target` is None where it answers nothing."""
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


def _open_base(opened: Opened, base: BaseToRun, receivers: Receivers, *, resume: bool) -> Opened | MissingBase | None:
    """Open what runs beside a suite.

    Raises:
        ConfigurationError, JournalError: it must run, or has run in part, and cannot.
    """
    if not isinstance(base, BaseSuite):
        return base
    item = base.item
    try:
        beside = replace(_open(item, opened.redactor, None, receivers, opened), beside=base)
        if opened.folder is None:
            return beside
        # Its answers are graded as those of the suite it runs beside.
        grading = {f"beside_{name}": opened.identity[name] for name in ("cases", "code")}
        more = {"commit": base.run.commit, **grading}
        return _in_folder(beside, opened.folder / BASE_FOLDER, more, resume=resume)
    except TargetError as error:
        wrong = target_problems(item.suite, item.shown, str(error), error.problems, written=item.written)
        problems = [through(problem, opened.redactor.text) for problem in wrong]
        if base.required:
            raise ConfigurationError(with_lines(problems, [item])) from error
        return MissingBase(f"the base cannot be run: {'; '.join(map(str, problems))}")


def _open(
    item: Prepared,
    redactor: Redactor,
    shared: Budget | None,
    receivers: Receivers,
    head: Opened | None = None,
    leases: Leases | None = None,
) -> Opened:
    """Open a suite; one that runs beside another, `head`, shares its wire and what reads files with it."""
    # A turn's deadline runs while it waits for a process: there is one for every conversation.
    imported = ImportedFiles(item.suite.checkout, named_modules(item.suite, item.target))
    pool = WorkerPool(
        item.suite.folder,
        environ=item.environ,
        cwd=item.suite.checkout.cwd,
        size=item.settings.concurrency,
        code=item.code,
        redact=redactor.text,
        imported=imported,
        interpreter=item.interpreter,
        spans=bool(item.suite.policy.spans),
    )
    settings = item.settings
    budgets = tuple(
        budget
        for budget in (budget_of(settings.max_cost_usd, settings.max_tokens, item.shards), shared)
        if budget is not None
    )
    if head is not None:
        budgets, files = head.budgets, head.files
    else:
        files = None if item.stored is not None else _files(item, redactor)
    wire: Wire | None = None
    judges: Judges | None = None
    reuse: Reuse | None = None
    judged = bool(judged_metrics(item.own_cases))
    if judged or isinstance(item.target, ModelTarget):
        shared_wire = None if head is None else head.wire
        wire = wire_of(item, redactor, budgets, leases) if shared_wire is None else shared_wire.beside()
    if judged and wire is not None:
        judges = judges_of(item, wire)
        reuse = reuse_of(item, redactor, judges, wire)
    own: OwnAgent | None = None
    agent: Agent | None = None
    if isinstance(item.target, ModelTarget):
        assert wire is not None
        agent = own = own_agent_of(item, redactor, wire, files, imported)
    elif item.stored is None:
        agent = build_agent(
            item.suite,
            item.target,
            files=item.target_files,
            environ=item.environ,
            max_bytes=settings.max_response_bytes,
            code=item.code,
            pool=pool,
            redact=redactor.text,
            receivers=receivers,
        )
    nothing = Resumed({}, 0, ())
    charges = None if agent is None else _charges(item, agent, budgets)
    return Opened(
        *(item, None, agent, own, budgets, charges, wire, judges, reuse),
        *(files, pool, imported, redactor, {}, nothing),
    )


def _charges(item: Prepared, agent: Agent, budgets: Sequence[Budget]) -> Charges | None:
    """Return what counts the calls of an agent that makes them itself; answers of a transcript are paid for already."""
    telling = {"tokens", "cost"} - agent.untold.keys()
    if not budgets or not telling or isinstance(item.target, ModelTarget | RecordedTarget):
        return None
    from holodeck_action.llm.limits.charges import Charges

    return Charges(budgets)


def _in_folder(opened: Opened, folder: GivenPath, more: Mapping[str, Any], *, resume: bool) -> Opened:
    """Return a suite with the folder of its files, and with what an interrupted run left there.

    Args:
        opened: the suite.
        folder: where its files go.
        more: what its trials depend on besides.
        resume: whether to read what is there.

    Raises:
        TargetError: a file of the target cannot be read.
        JournalError: the journal there cannot be continued.
    """
    item = opened.item
    environment = None if item.python is None else item.python.digest
    try:
        digests = file_digests(item.suite, item.target, item.target_files)
        identified = run_identity(item.suite, item.target, item.target_files, digests, environment)
        shard = {} if item.part is None else {"shard": str(item.part.shard), "split": item.part.shard.split}
        identity = opened.redactor.value({**identified, **shard, **more})
    except OSError as error:
        raise TargetError(f"{error.filename}: cannot be read: {error.strerror}") from error
    resumed = read_for_resume(folder / JOURNAL_FILE, identity, opened.imported.changed) if resume else opened.resumed
    known = {"the settings of the target": str(identified["target_digest"]), **digests}
    if environment is not None:
        known["the packages of its code"] = environment
    return replace(opened, folder=folder, identity=identity, resumed=resumed, digests=known)


def _files(item: Prepared, redactor: Redactor) -> CaseFiles | None:
    """Prepare what reads the files of the cases; None where there are none.

    Raises:
        TargetError: the suite's model is to be given files that cannot be read here.
    """
    if not any(turn.files for case in item.own_cases for turn in case.turns):
        return None
    from holodeck_action.targets.own_model.case_files import CaseFiles, check_packages

    if isinstance(item.target, ModelTarget):
        check_packages(item.own_cases)
    settings = item.settings
    return CaseFiles(
        item.suite.checkout,
        file_timeout_s=settings.files.file_timeout_s,
        download_timeout_s=settings.files.download_timeout_s,
        cache=settings.files.cache,
        online=settings.calls.mode != "replay",
        environ=item.environ,
        redact=redactor.text,
    )


async def close_all(suites: Sequence[Opened]) -> None:
    """Release what suites hold that were opened and did not run."""
    for opened in suites:
        await opened.close()
