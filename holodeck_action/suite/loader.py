"""`load_suite`: loads agent.yaml and its files into a frozen `Suite`, or reports all problems at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from holodeck_action.suite.cases.case_files import Conversations, RowSource, add_conversations, find_cases
from holodeck_action.suite.cases.case_parameters import expand_cases
from holodeck_action.suite.cases.expect import EXPECT, STOP, normalize_checks, raw_overlays
from holodeck_action.suite.cases.files import (
    response_format_problems,
    unreadable_case_files,
    unreadable_files,
    unreadable_policy_files,
    unreadable_project_files,
)
from holodeck_action.suite.cases.sources import (
    POLICY_NAMES,
    Sources,
    fill_models,
    merge_project,
    read_content,
    read_sources,
)
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.checks import (
    bound_above_ties,
    duplicate_tools,
    inexpressible_calls,
    metrics_that_never_apply,
    misdirected_bounds,
    missing_assertions,
    unencrypted_addresses,
    unencrypted_case_addresses,
    unknown_labels,
    unreachable_lower_bound,
    unsupported_settings,
)
from holodeck_action.suite.errors import Problem, SourceMark, SuiteError, field_path, mask_quotations, quoted
from holodeck_action.suite.expectations import ExpectationFactory
from holodeck_action.suite.identity import case_ids, question_hash
from holodeck_action.suite.model.agent import AgentConfig, ProjectConfig
from holodeck_action.suite.model.cases import CaseEntry, TableCase, TurnEntry
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.model.metric_types import MetricTypes
from holodeck_action.suite.model.policy import Policy
from holodeck_action.suite.model.schema_marks import METRICS
from holodeck_action.suite.notices import suite_notices
from holodeck_action.suite.resolve import (
    CaseBuilder,
    CaseIndex,
    MetricTable,
    misplaced_metrics,
    overlays_by_case,
    resolve_quarantine,
)
from holodeck_action.suite.validation import validate
from holodeck_action.suite.values import Case, MetricSpec, Suite
from holodeck_action.suite.yaml.document import Document, MarkedMap
from holodeck_action.suite.yaml.reading import read_yaml


def load_suite(
    path: Path,
    *,
    environ: Mapping[str, str],
    home: Path | None,
    metrics: MetricTypes,
    checkout: Checkout | None = None,
    plain_http: bool = False,
    allow_empty: bool = False,
    rows: RowSource | None = None,
    notices: Sequence[str] = (),
    conversations: Conversations | None = None,
) -> Suite:
    """Load and validate a suite with its cases, configuration and policy.

    Args:
        path: agent.yaml.
        environ: values of `${VAR}` (see `variables.load_environment`).
        home: the user's home folder, for user configuration; None to ignore user configuration.
        metrics: the available metrics.
        checkout: the suite's folder, and the paths that the suite may read; None if it may only read that folder.
        plain_http: whether keys may be sent to other machines unencrypted.
        allow_empty: whether a suite may have no cases.
        rows: reads files in extensions' formats and calls functions that return cases; None if neither is available.
        notices: notices to put first.
        conversations: conversations to judge in place of the suite's own cases; the suite's cases and the policy file's
            settings for single cases are then ignored. None, or some that only answer, to use the suite's cases.

    Raises:
        SuiteError: the suite is invalid; the error has all problems of all files.
    """
    checkout = checkout or Checkout.of(path.parent, path.parent)
    sources = read_sources(path, checkout, environ=environ, home=home, metrics=metrics)
    project = _load_project(sources)
    policy = _load_policy(sources)
    if conversations is not None and add_conversations(sources, conversations):
        policy = None if policy is None else policy.model_copy(update={"cases": {}, "quarantine": ()})
    else:
        find_cases(sources, policy, rows)
        policy = None if policy is None else expand_cases(sources, policy)
    agent = _load_agent(sources, merge_project(sources))
    table = MetricTable(checkout, None if agent is None else _known_tools(agent))
    outline = _read_outline(sources, table)
    if sources.cases_found and not sources.count and not allow_empty:
        sources.problems.append(_no_cases_problem(sources))
    if agent is None or policy is None or not sources.cases_found or len(outline.hashes) < sources.count:
        raise sources.error()
    builder = _SuiteBuilder(sources, agent, policy, table, outline, conversations)
    cases = builder.build_cases()
    if cases:
        builder.check_cases(cases)
    if not plain_http:
        sources.problems += unencrypted_addresses(agent, sources.agent, environ)
        if sources.policy is not None:
            sources.problems += unencrypted_addresses(policy, sources.policy, environ)
        sources.problems += unencrypted_case_addresses(cases, environ)
    if project is None or sources.problems:
        raise sources.error()
    secrets, summary_mark = sources.secrets.union(policy.secrets), _summary_mark(sources, policy)
    return Suite(
        name=agent.name,
        folder=sources.folder,
        file=path.name,
        digest=sources.digest,
        agent=_add_servers(agent, project),
        policy=builder.policy,
        project=project,
        cases=cases,
        checkout=checkout,
        notices=(
            *notices,
            *sources.notices,
            *(
                mask_quotations(notice, secrets)
                for notice in suite_notices(agent, project, builder.policy.judges, builder.suite_specs, cases)
            ),
        ),
        secrets=secrets,
        tool_marks={tool.name: sources.agent.mark_at(("tools", index)) for index, tool in enumerate(agent.tools or ())},
        graders=_graders(cases, policy, summary_mark),
        metric_classes=_first_marks(cases, lambda metric: metric.suite_class_paths, {}),
        summary_mark=summary_mark,
        gates_mark=_gates_mark(sources),
        card_marks=_marks(sources.policy, (("judges", "cards", at) for at in range(len(policy.judges.cards)))),
        target_mark=None if policy.target is None else _mark(sources.policy, ("target",)),
        environment_mark=_environment_mark(sources, policy),
        cache_mark=_mark(sources.policy, ("cache", "mode")) if "mode" in policy.cache.model_fields_set else None,
        model_mark=_mark(sources.agent, ("model",)),
        gate_marks=_gate_marks(sources, policy),
        quarantine_marks=_marks(sources.policy, (("quarantine", at, "case") for at in range(len(policy.quarantine)))),
    )


def _mark(document: Document | None, place: tuple[str | int, ...]) -> SourceMark | None:
    return None if document is None else document.mark_at(place)


def _marks(document: Document | None, places: Iterable[tuple[str | int, ...]]) -> tuple[SourceMark, ...]:
    return () if document is None else tuple(map(document.mark_at, places))


def _gate_marks(sources: Sources, policy: Policy) -> Mapping[str, SourceMark]:
    document = sources.policy
    if document is None:
        return {}
    gates = policy.gates
    places: list[tuple[str, ...]] = [(name,) for name in gates.model_fields_set]
    places += [("metrics", name, key) for name, bounds in gates.metrics.items() for key in bounds.model_fields_set]
    named = [("gates", *place) for place in places] + [("baseline", key) for key in policy.baseline.model_fields_set]
    named += [("trials", key) for key in policy.trials.model_fields_set]
    return {".".join(place): document.mark_at(place) for place in named}


def _summary_mark(sources: Sources, policy: Policy) -> SourceMark | None:
    if sources.policy is None or policy.gates.summary is None or policy.gates.summary.function is None:
        return None
    return _mark(sources.policy, ("gates", "summary", "function"))


def _environment_mark(sources: Sources, policy: Policy) -> SourceMark | None:
    return None if policy.environment is None else _mark(sources.policy, ("environment", policy.environment.given_key))


def _gates_mark(sources: Sources) -> SourceMark | None:
    if sources.policy is None or "gates" not in sources.policy.root:
        return None
    return sources.policy.mark_at(("gates",), key=True)


def load_policy(path: Path, display_path: str, *, environ: Mapping[str, str], metrics: MetricTypes) -> Policy:
    """Load a policy file without a suite, to apply it to a stored record; `display_path` is its name in messages.

    Raises:
        SuiteError: the file is invalid; the error has all problems.
    """
    data, reason = read_content(Checkout.unbounded(path.parent), path.name)
    if data is None:
        raise SuiteError([Problem(None, "", f"{display_path}: {reason}")])
    document = read_yaml(data, file=path.name, environ=environ, checks=metrics.written)
    problems = list(document.problems)
    policy: Policy | None = Policy()
    if document.root is not None:
        normalize_checks(raw_overlays(document.root))
        policy, found = validate(Policy, document.root, document, metrics=metrics)
        problems += found
    if policy is not None:
        problems += unsupported_settings(policy, document)
    if policy is None or problems:
        raise SuiteError(problems, document.secrets, (path.name,))
    return policy


def _graders(cases: Sequence[Case], policy: Policy, summary_mark: SourceMark | None) -> Mapping[str, SourceMark]:
    found: dict[str, SourceMark] = {}
    summary = policy.gates.summary
    if summary is not None and summary.function is not None and summary_mark is not None:
        found[summary.function] = summary_mark
    return _first_marks(cases, lambda metric: metric.grader_callables, found)


def _first_marks(
    cases: Sequence[Case], references_of: Callable[[Metric], Sequence[str]], first_marks: dict[str, SourceMark]
) -> Mapping[str, SourceMark]:
    # Most turns have the metrics of the whole suite.
    specs = {id(spec): spec for case in cases for turn in case.turns for spec in turn.metrics}
    for spec in specs.values():
        for part in spec.config.leaf_metrics() if spec.config.enabled else ():
            for reference in references_of(part):
                first_marks[reference] = min(spec.mark, first_marks.get(reference, spec.mark))
    return first_marks


class _Outline(Struct, frozen=True):
    """The names, ids as written, and question hashes of the cases, in order."""

    names: list[str | None] = field(default_factory=list)
    given_ids: list[str | None] = field(default_factory=list)
    hashes: list[str] = field(default_factory=list)


def _check_mapping(sources: Sources, document: Document) -> bool:
    if document.readable and not isinstance(document.root, MarkedMap):
        sources.problems.append(document.problem((), "must be a mapping"))
    return isinstance(document.root, MarkedMap)


def _load_project(sources: Sources) -> ProjectConfig | None:
    valid = True
    for document in (sources.user, sources.project):
        if document is None:
            continue
        if not _check_mapping(sources, document):
            valid = False
            continue
        config, problems = validate(ProjectConfig, document.root, document)
        sources.problems += problems
        if config is not None and document is sources.project:
            sources.problems += unreadable_project_files(config, sources.checkout, document)
        valid = valid and config is not None
    if not valid:
        return None
    merged = merge_project(sources)
    # Every entry is complete within its file, so files that are valid alone are valid when merged.
    return ProjectConfig.model_validate(merged) if merged else ProjectConfig.model_construct()


def _load_policy(sources: Sources) -> Policy | None:
    document = sources.policy
    if document is None:
        return Policy()
    if not _check_mapping(sources, document):
        return None
    normalize_checks(raw_overlays(document.root))
    policy, problems = validate(Policy, document.root, document, metrics=sources.metrics)
    sources.problems += problems
    if policy is not None:
        sources.problems += unsupported_settings(policy, document)
        sources.problems += unreadable_policy_files(policy, sources.checkout, document)
    return policy


def _load_agent(sources: Sources, project: Mapping[str, Any]) -> AgentConfig | None:
    root = sources.agent.root
    if not isinstance(root, MarkedMap):
        return None
    if "test_cases" in root:
        # The cases are validated one by one. The key stays, because the marks depend on its position.
        root["test_cases"] = None
    fill_models(root, project)
    agent, problems = validate(AgentConfig, root, sources.agent, metrics=sources.metrics)
    sources.problems += problems
    if agent is not None:
        sources.problems += duplicate_tools(agent, sources.agent)
        sources.problems += unreadable_files(agent, sources.checkout, sources.agent)
        sources.problems += response_format_problems(agent, sources.checkout, sources.agent)
    return agent


def _read_outline(sources: Sources, table: MetricTable) -> _Outline:
    """Validate every case, and add its metrics to the table; to save memory, only the outline is kept."""
    outline = _Outline()
    factory = ExpectationFactory()
    by_id: dict[str, SourceMark] = {}
    for file in sources.case_files:
        document = file.document
        normalize_checks(file.cases)
        for index, raw in enumerate(file.cases):
            if not isinstance(raw, MarkedMap):
                sources.problems.append(
                    Problem(file.mark_of(index), field_path(("test_cases", index)), "must be a mapping")
                )
                continue
            name = _visible_name(raw)
            entry, problems = validate(
                file.model, raw, document, ("test_cases", index), case=name, metrics=sources.metrics
            )
            if entry is None:
                sources.problems += problems if file.columns is None else map(file.columns.name_column, problems)
                continue
            sources.problems += misplaced_metrics(entry, raw, document, index)
            sources.problems += unreadable_case_files(entry, raw, sources.checkout, document, index)
            parts: list[tuple[CaseEntry | TurnEntry, Any]] = [(entry, raw)]
            parts += zip(entry.turns or (), raw.get("turns") or (), strict=True)
            for part, written in parts:
                table.add(part.evaluations, written.get("evaluations"), document)
                table.add(part.expect, written.get(EXPECT), document)
            if entry.simulate is not None:
                of_user = entry.simulate.metrics_of_user
                table.add(of_user, [raw["simulate"]] * len(of_user), document)
                for check, written in zip(entry.simulate.stop_checks, raw["simulate"].get(STOP) or (), strict=True):
                    if isinstance(check, Metric):
                        table.make_unlabelled_spec(check, written, document)
            expectations = [factory.build(part.expected_tools) for part in entry.turns or (entry,)]
            if isinstance(entry, TableCase) and entry.id is not None:
                mark = document.mark(*raw.value_position("id"))
                if by_id.setdefault(entry.id, mark) is not mark:
                    message = f"{quoted(entry.id)} is the id of another case, too ({by_id[entry.id]}): ids must differ"
                    sources.problems.append(Problem(mark, field_path(("test_cases", index, "id")), message))
            outline.given_ids.append(entry.id if isinstance(entry, TableCase) else None)
            outline.names.append(entry.name)
            outline.hashes.append(question_hash(entry, expectations))
    return outline


def _visible_name(raw: MarkedMap) -> str | None:
    if isinstance(raw.get("name"), str) and not raw.is_substituted("name"):
        name: str = raw["name"]
        return name
    return None


def _no_cases_problem(sources: Sources) -> Problem:
    document = sources.case_files[0].document
    path = ("test_cases",) if isinstance(document.root, MarkedMap) else ()
    mark = document.mark_at(path)
    return Problem(mark, "test_cases", "the suite has no cases (allowed: at least one, or none with allow-empty)")


def _known_tools(agent: AgentConfig) -> Sequence[Mapping[str, Any]] | None:
    """Return the agent's tools as `described_tools` does; None if they are unknown."""
    if not agent.tools:
        return None
    # Imported late: most suites have no tools.
    from holodeck_action.suite.model.tools import described_tools

    return described_tools(agent.tools)


def _add_servers(agent: AgentConfig, project: ProjectConfig) -> AgentConfig:
    """Return the agent with the project's MCP servers added, except servers whose name a tool already has."""
    taken = {tool.name for tool in agent.tools or ()}
    added = [server for server in project.mcp_servers or () if server.name not in taken]
    return agent.model_copy(update={"tools": [*(agent.tools or ()), *added]}) if added else agent


class _SuiteBuilder:
    """Resolves references between the files of a suite, and builds its cases."""

    def __init__(
        self,
        sources: Sources,
        agent: AgentConfig,
        policy: Policy,
        table: MetricTable,
        outline: _Outline,
        conversations: Conversations | None,
    ) -> None:
        self._missing = None if conversations is None else conversations.missing_input_message
        self._sources = sources
        self._table = table
        self._outline = outline
        self._ids = case_ids(list(zip(outline.names, outline.hashes, strict=True)), outline.given_ids)
        self._policy_document = sources.policy or Document(POLICY_NAMES[0], MarkedMap.at(1, 1), True, (), frozenset())
        index = CaseIndex.of(outline.names, self._ids)
        before = len(sources.problems)
        quarantine, problems = resolve_quarantine(policy, index, self._policy_document)
        sources.problems += problems
        self.policy = policy.model_copy(update={"quarantine": quarantine})
        self._overlays, self._raw_overlays, problems = overlays_by_case(policy, index, self._policy_document)
        sources.problems += problems
        self._suite_lists = self._collect_lists(agent)
        self._consistent = len(sources.problems) == before
        self.suite_specs: tuple[MetricSpec, ...] = ()
        self._suite_fields: list[str] = []

    def _collect_lists(self, agent: AgentConfig) -> list[tuple[Sequence[Any], Any, Document, str]]:
        root = self._sources.agent.root
        lists: list[tuple[Sequence[Any], Any, Document, str]] = []
        if agent.evaluations is not None:
            written = root["evaluations"]["metrics"]
            lists.append((agent.evaluations.metrics, written, self._sources.agent, "evaluations.metrics"))
        if self.policy.metrics:
            written = self._policy_document.root["metrics"]
            lists.append((self.policy.metrics, written, self._policy_document, "metrics"))
        for configs, written, document, _ in lists:
            self._table.add(configs, written, document)
        for index, overlay in self._overlays.items():
            raw = self._raw_overlays[index]
            self._table.add(overlay.evaluations, raw.get("evaluations"), self._policy_document)
            self._table.add(overlay.expect, raw.get(EXPECT), self._policy_document)
        self._sources.problems += [*self._table.problems, *self._table.choose_labels()]
        return lists

    def build_cases(self) -> tuple[Case, ...]:
        """Return the cases; the unvalidated data of each case is deleted when the case is built."""
        specs: list[MetricSpec] = []
        for configs, written, document, name in self._suite_lists:
            for place, config in enumerate(configs):
                found = self._table.specs([config], [written[place]], document, inherited=True)
                specs += found
                self._suite_fields += [f"{name}[{place}]"] * len(found)
        self.suite_specs = tuple(specs)
        context = {METRICS: self._sources.metrics}
        cases: list[Case] = []
        for file in self._sources.case_files:
            builder = CaseBuilder(file.document, self.policy, self._policy_document, self._table)
            builder.set_suite_metrics(self.suite_specs)
            for place, raw in enumerate(file.cases):
                file.cases[place] = None
                index = len(cases)
                entry = file.model.model_validate(raw, context=context)
                overlay, written = self._overlays.get(index), self._raw_overlays.get(index)
                cases.append(builder.build(entry, raw, self._ids[index], self._outline.hashes[index], overlay, written))
        return tuple(cases)

    def check_cases(self, cases: Sequence[Case]) -> None:
        """Add the problems that need the whole suite."""
        sources, document = self._sources, self._policy_document
        sources.problems += unknown_labels(self.policy, self._table.labels.values(), document)
        if not self._consistent:
            # The effect of an unmatched overlay is unknown.
            return
        sources.problems += misdirected_bounds(self.policy, cases, document)
        sources.problems += inexpressible_calls(cases)
        sources.problems += unreachable_lower_bound(self.policy, cases, document)
        problems, notices = metrics_that_never_apply(self.suite_specs, self._suite_fields, cases, self._missing)
        sources.problems += problems
        sources.notices += [*notices, *bound_above_ties(self.policy, cases)]
        if not problems:
            sources.problems += missing_assertions(cases, self.policy.gates, sources.agent)
