"""Opens suites before anything runs: builds agents and judges, and reads the journals of interrupted runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holodeck_action.decide.consumption import count_reused_verdicts
from holodeck_action.record.agent_errors import TargetError
from holodeck_action.record.disk import Disk
from holodeck_action.record.result_files import BASE_FOLDER
from holodeck_action.run.identity import file_digests, named_modules, run_identity
from holodeck_action.run.journal import (
    JOURNAL_FILE,
    Journal,
    JournalError,
    read_for_resume,
    set_aside_journal,
)
from holodeck_action.run.loading import with_lines
from holodeck_action.run.model_calls import (
    judging_environment,
    make_budget,
    make_judges,
    make_own_agent,
    make_recording,
    make_reuse,
    make_users,
    make_wire,
    model_environment,
)
from holodeck_action.run.preflight import unreported_gates
from holodeck_action.run.run import FoundBase, MissingBase, Resources, Run
from holodeck_action.run.used_files import UsedFiles
from holodeck_action.seam import registry
from holodeck_action.suite.applicability import judged_metrics
from holodeck_action.suite.configuration_errors import ConfigurationError, LocatedProblem, map_texts
from holodeck_action.suite.model.targets import AnyTarget, HttpTarget, ModelTarget, RecordedTarget
from holodeck_action.suite.values import Case, Suite
from holodeck_action.targets.factory import build_agent
from holodeck_action.targets.protocol import Agent
from holodeck_action.targets.spans import Receivers
from holodeck_action.text.credentials import credentials_in
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets

if TYPE_CHECKING:
    from holodeck_action.llm.limits.budget import Budget
    from holodeck_action.llm.limits.charges import Charges
    from holodeck_action.llm.wire import Wire
    from holodeck_action.targets.own_model.case_files import CaseFiles
    from holodeck_action.targets.own_model.own_agent import OwnAgent


def complete(run: Run) -> Run:
    """Return a run that has ended with the number and cost of model calls, judges' configurations and cards, notices
    about model calls and embeddings, and a base's own gates in its record.
    """
    held, redactor, record = run.resources, run.redactor, run.record
    if held.wire is not None:
        calls = replace(held.wire.model_calls, reused=count_reused_verdicts(record.cases))
        told = tuple(map(redactor.text, held.wire.notices))
        record = replace(record, run=replace(record.run, model_calls=calls, notices=told))
    if held.judges is not None:
        from holodeck_action.scoring.configurations import add_configurations

        record = add_configurations(record, run.grading.suite, run.grading.cards, judging_environment(run), redactor)
        notices = (*record.notices, *redactor.value(held.judges.expected_texts.notices))
        record = replace(record, notices=notices, probes=run.exams.probes)
    if run.as_base is not None:
        from holodeck_action.run.own_terms import with_own_terms

        record = with_own_terms(record, run.suite, run.as_base.own, model_environment(run), redactor)
    return replace(run, ended=record)


def open_suites(
    wanted: Sequence[Run],
    shared_budget: Budget | None = None,
    *,
    siblings: bool = False,
    host: Run | None = None,
) -> list[Run]:
    """Open runs before anything runs.

    Args:
        wanted: the runs, with their folders and bases.
        shared_budget: budget of all runs together; None to use that of the command line.
        siblings: whether the runs are variants of one suite, which run at the same time over one wire with one
            budget; the first decides the settings of both.
        host: open run, closed last, whose wire and budgets the siblings share; None to share the first one's.

    Raises:
        ConfigurationError: the problems of all suites.
    """
    flags = wanted[0].flags
    runs: list[Run] = []
    budget = shared_budget or make_budget(flags.max_cost_usd, flags.max_tokens, wanted[0].shards)
    receivers = Receivers()
    problems: list[str | LocatedProblem] = []
    for item in wanted:
        # All that run at the same time must mask the secrets of all.
        redactor = redactor_of(*(wanted if siblings else item.sides))
        try:
            first = runs[0] if runs else host
            shared = first.resources if siblings and first is not None else None
            if shared is not None and not runs:
                # Files are closed with the variants.
                shared = replace(shared, files=_case_files(item, redactor))
            runs.append(_open(replace(item, base=None), redactor, budget, receivers, shared))
            runs[-1] = run = _identify(runs[-1])
            agent = run.resources.agent
            if agent is not None and not siblings:
                problems += unreported_gates(run, run.settings.gates, agent, run.target)
            runs[-1] = replace(run, base=_open_base(run, item.base, receivers))
        except TargetError as error:
            problems += (map_texts(problem, redactor.text) for problem in item.target_problems(error))
        except JournalError as error:
            problems.append(redactor.text(str(error)))
    if problems:
        asyncio.run(close_all(runs))
        located = with_lines(problems, wanted)
        raise ConfigurationError(list(dict.fromkeys(located)) if siblings else located)
    return runs


def redactor_of(*prepared: Run) -> Redactor:
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
    run: Run, base: Run | FoundBase | MissingBase | None, receivers: Receivers
) -> Run | FoundBase | MissingBase | None:
    """Open the base that runs with a suite; return another one unchanged.

    Raises:
        ConfigurationError: the base is required and cannot run.
        JournalError: the base's journal cannot be resumed.
    """
    if not isinstance(base, Run):
        return base
    assert base.as_base is not None
    redactor = run.redactor
    try:
        opened = _open(base, redactor, None, receivers, run.resources)
        # Its answers are graded like those of the suite it runs beside.
        grading = {f"beside_{name}": run.identity.get(name) for name in ("cases", "code")}
        folder = None if run.folder is None else run.folder / BASE_FOLDER
        inputs = {"commit": base.as_base.run.commit, **grading}
        return _identify(replace(opened, folder=folder, inputs=inputs))
    except TargetError as error:
        problems = [map_texts(problem, redactor.text) for problem in base.target_problems(error)]
        if base.as_base.required:
            raise ConfigurationError(with_lines(problems, [base])) from error
        return MissingBase(f"the base cannot be run: {'; '.join(map(str, problems))}")


def _open(
    run: Run, redactor: Redactor, shared_budget: Budget | None, receivers: Receivers, head: Resources | None
) -> Run:
    """Open a run; if `head` is given, the run shares the head's wire, budgets and file readers."""
    settings, target, checkout = run.settings, run.target, run.suite.checkout
    used = UsedFiles(checkout, run.context.started, named_modules(run.suite, target))
    # One process for each conversation, as a turn's deadline runs while it waits for one.
    spans = bool(run.suite.policy.spans)
    pool = run.worker_pool(settings.least_concurrency, redactor.text, on_import=used.add_tested, spans=spans)
    files: CaseFiles | None = None
    simulated: tuple[Case, ...] = ()
    if run.stored is None:
        files = _case_files(run, redactor) if head is None else head.files
        simulated = tuple(case for case in run.own_cases if case.simulation is not None)
    limits = (make_budget(settings.max_cost_usd, settings.max_tokens, run.shards), shared_budget)
    budgets = tuple(budget for budget in limits if budget is not None) if head is None else head.budgets
    judged = bool(judged_metrics(run.own_cases))
    wire: Wire | None = None
    if judged or simulated or isinstance(target, ModelTarget):
        wire = make_wire(run, redactor, budgets) if head is None or head.wire is None else head.wire.sibling()
    judges = make_judges(run, wire) if judged and wire is not None else None
    reuse = make_reuse(run, redactor, wire) if judged and wire is not None else None
    users = make_users(run, simulated, wire) if simulated and wire is not None else None
    own: OwnAgent | None = None
    agent: Agent | None = None
    if isinstance(target, ModelTarget):
        assert wire is not None
        agent = own = make_own_agent(run, redactor, wire, files, used.add_tested)
    elif run.stored is None:
        agent = build_agent(
            run.suite,
            target,
            checkout=run.target_files,
            environ=run.environ,
            max_bytes=settings.max_response_bytes,
            code=run.code,
            pool=pool,
            redact=redactor.text,
            receivers=receivers,
            recording=make_recording(run, redactor),
        )
    resources = Resources(
        agent=agent,
        own=own,
        budgets=budgets,
        charges=None if agent is None else _make_charges(target, agent, budgets),
        wire=wire,
        judges=judges,
        reuse=reuse,
        files=files,
        target_pool=pool,
        used=used,
        redactor=redactor,
        users=users,
    )
    return replace(run, opened=resources)


def _make_charges(target: AnyTarget, agent: Agent, budgets: Sequence[Budget]) -> Charges | None:
    """Return a counter of the model calls that an agent reports; None if no budget limits them."""
    telling = {"tokens", "cost"} - agent.unreported.keys()
    if not budgets or not telling or isinstance(target, ModelTarget | RecordedTarget):
        return None
    from holodeck_action.llm.limits.charges import Charges

    return Charges(budgets)


def _identify(run: Run) -> Run:
    """Return a run with its identity, and with the finished trials of an interrupted run; unchanged without a folder.

    Raises:
        TargetError: a file that the target needs cannot be read.
        JournalError: the journal in the folder cannot be resumed.
    """
    if run.folder is None:
        return run
    environment = None if run.python is None else run.python.digest
    try:
        digests = file_digests(run.suite, run.target, run.target_files)
        identified = run_identity(run.suite, run.target, run.target_files, digests, environment)
    except OSError as error:
        raise TargetError(f"{error.filename}: cannot be read: {error.strerror}") from error
    shard = {} if run.part is None else {"shard": str(run.part.shard), "split": run.part.shard.split}
    identity = run.redactor.value({**identified, **shard, **run.inputs})
    resumed = run.resumed
    if run.flags.resume:
        resumed = read_for_resume(run.folder / JOURNAL_FILE, identity, run.resources.used.changed_files)
    known = {"the settings of the target": str(identified["target_digest"]), **digests}
    if environment is not None:
        known["the packages of its code"] = environment
    return replace(run, identity=identity, resumed=resumed, digests=known)


def _case_files(suite: Run, redactor: Redactor) -> CaseFiles | None:
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


def start_journals(suite: Run, disk: Disk, note: Callable[[str], None]) -> Run:
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
        journal = Journal(path, suite.identity, resumed.keep_bytes, disk, len(suite.cases))
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
    suite.resources.used.notify(journal.append_imports)
    base = start_journals(suite.base, disk, note) if isinstance(suite.base, Run) else suite.base
    return replace(suite, journal=journal, base=base)


@contextmanager
def closing(suites: Sequence[Run]) -> Iterator[None]:
    """Close the suites that are left in a list at the end of the block; whoever runs a suite takes it from the list."""
    try:
        yield
    finally:
        if suites:
            asyncio.run(close_all(suites))
        for suite in suites:
            suite.close_journals()


async def close_all(suites: Sequence[Run]) -> None:
    """Close suites that were opened and did not run."""
    for opened in suites:
        await opened.close()
