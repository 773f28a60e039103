"""Builds the cases of a run from validated entries, the policy file's overlays, and metrics."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.suite.applicability import missing_static_inputs
from holodeck_action.suite.cases.expect import EXPECT, STOP
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.errors import Problem, SourceMark, field_path, quoted
from holodeck_action.suite.expectations import ExpectationFactory, expected_tool
from holodeck_action.suite.identity import content_hash, question_with_answers
from holodeck_action.suite.labels import MetricKey, freeze, label_metrics, metric_key
from holodeck_action.suite.messages import did_you_mean
from holodeck_action.suite.model.cases import CaseEntry, FileInput, TableCase, TurnEntry
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.model.policy import CaseOverlay, Policy, QuarantineEntry, RetrievalOverlay
from holodeck_action.suite.model.simulation import Simulation
from holodeck_action.suite.validation import EntryError
from holodeck_action.suite.values import Case, ExpectedTool, MetricSpec, StopCheck, Turn
from holodeck_action.suite.yaml.document import Document, Path, last_position
from holodeck_action.text.foreign import RefusedFileError

Entry = TypeVar("Entry")
_MOST_LISTED = 10


class CaseIndex(Struct, frozen=True):
    """The cases of a suite by id and by name; values are indexes of cases."""

    ids: Sequence[str]
    by_id: Mapping[str, int]
    by_name: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, names: Sequence[str | None], ids: Sequence[str]) -> CaseIndex:
        """Index cases by their names and ids."""
        by_name: dict[str, tuple[int, ...]] = {}
        for index, name in enumerate(names):
            if name is not None:
                by_name[name] = (*by_name.get(name, ()), index)
        return cls(ids, {found: index for index, found in enumerate(ids)}, by_name)

    def find(self, reference: str) -> int | str:
        """Return the index of the case with a name or id, or a sentence if there is not exactly one such case."""
        found = set(self.by_name.get(reference, ()))
        if reference in self.by_id:
            found.add(self.by_id[reference])
        if len(found) == 1:
            return found.pop()
        if not found:
            guess = did_you_mean(reference, [*self.by_name, *self.ids])
            return f"{quoted(reference)} is not a case of this suite{guess or self._options()}"
        ids = [self.ids[index] for index in sorted(found)]
        shown = ", ".join(ids[:_MOST_LISTED]) + (", …" if len(ids) > _MOST_LISTED else "")
        return f"{quoted(reference)} is the name of {len(ids)} cases (allowed: one of their ids {shown})"

    def _options(self) -> str:
        if len(self.ids) > _MOST_LISTED:
            return ""
        named = {found[0]: name for name, found in self.by_name.items() if len(found) == 1}
        return f" (allowed: {', '.join(quoted(named.get(index, case_id)) for index, case_id in enumerate(self.ids))})"


def overlays_by_case(
    policy: Policy, cases: CaseIndex, document: Document
) -> tuple[dict[int, CaseOverlay], dict[int, Any], list[Problem]]:
    """Match the overlays with their cases.

    Returns:
        The overlays by case index, the unvalidated overlays by case index, and a list of problems: overlays that do not
        match exactly one case, and invalid numbers of trials.
    """
    found, problems = _match_entries(policy.cases.items(), cases, document, lambda key: ("cases", key), at_key=True)
    raw = {index: document.root["cases"][key] for index, (key, _) in found.items()}
    problems += _trial_problems(policy, {index: overlay for index, (_, overlay) in found.items()}, raw, document)
    return {index: overlay for index, (_, overlay) in found.items()}, raw, problems


def resolve_quarantine(
    policy: Policy, cases: CaseIndex, document: Document
) -> tuple[tuple[QuarantineEntry, ...], list[Problem]]:
    """Return the quarantine with ids instead of names, and a problem for each entry that does not match exactly one
    case."""
    entries = [(entry.case, entry) for entry in policy.quarantine]
    places = iter(range(len(entries)))
    found, problems = _match_entries(
        entries, cases, document, lambda _: ("quarantine", next(places), "case"), at_key=False
    )
    resolved = (entry.model_copy(update={"case": cases.ids[index]}) for index, (_, entry) in found.items())
    return tuple(resolved), problems


def _match_entries(
    entries: Any, cases: CaseIndex, document: Document, make_path: Callable[[str], Path], *, at_key: bool
) -> tuple[dict[int, tuple[str, Any]], list[Problem]]:
    found: dict[int, tuple[str, Any]] = {}
    problems: list[Problem] = []
    for reference, entry in entries:
        path = make_path(reference)
        index = cases.find(reference)
        if isinstance(index, int) and index in found:
            index = f"{quoted(reference)} names the same case as {quoted(found[index][0])}: write one entry per case"
        if isinstance(index, str):
            field = field_path(path[:-1] if at_key else path)
            problems.append(Problem(document.mark_at(path, key=at_key), field, index))
        else:
            found[index] = (reference, entry)
    return found, problems


def _trial_problems(
    policy: Policy, overlays: Mapping[int, CaseOverlay], raw: Mapping[int, Any], document: Document
) -> list[Problem]:
    problems: list[Problem] = []
    if (policy.trials.min_pass or 1) > policy.trials.repeat:
        problems.append(_min_pass_problem(policy.trials.repeat, ("trials", "min_pass"), document))
    for index, overlay in overlays.items():
        repeat, least = trials_of(policy, overlay)
        if (least or 1) > repeat and (overlay.repeat is not None or overlay.min_pass is not None):
            key = next(key for key, value in document.root["cases"].items() if value is raw[index])
            field = "min_pass" if overlay.min_pass is not None else "repeat"
            problems.append(_min_pass_problem(repeat, ("cases", key, field), document))
    return problems


def _min_pass_problem(repeat: int, path: Path, document: Document) -> Problem:
    message = f"more trials must pass than there are (allowed: min_pass from 1 to repeat, which is {repeat})"
    return document.problem(path, message)


def trials_of(policy: Policy, overlay: CaseOverlay | None) -> tuple[int, int | None]:
    """Return (trials, trials that must pass) of a case; the second is None if all must pass. The overlay takes
    precedence."""
    repeat, least = policy.trials.repeat, policy.trials.min_pass
    if overlay is not None:
        repeat = overlay.repeat if overlay.repeat is not None else repeat
        least = overlay.min_pass if overlay.min_pass is not None else least
    return repeat, least


Specs = tuple[MetricSpec, ...]
_NO_CONFIG: Mapping[str, Any] = MappingProxyType({})


class MetricTable:
    """All metrics of a suite. Equal configurations are stored once, and labels are chosen when all metrics are known.

    `problems` are the problems of the files that metrics name.
    """

    def __init__(self, checkout: Checkout, tools: Sequence[Mapping[str, Any]] | None = None) -> None:
        """Set the suite's folder, with the paths that its files may read, and the agent's tools (None if unknown)."""
        self._checkout = checkout
        self._tools = tools
        self.problems: list[Problem] = []
        self.first_marks: dict[MetricKey, SourceMark] = {}
        self.labels: dict[MetricKey, str] = {}
        self._known: dict[tuple[Any, ...], tuple[Metric, tuple[tuple[int | None, MetricKey], ...]]] = {}

    def add(self, configs: Sequence[Metric] | None, raw: Any, document: Document) -> None:
        """Add the metrics of a list; `raw` is the list as written."""
        for config, written in zip(configs or (), raw or (), strict=True):
            mark = document.mark(written.line, written.column)
            for _, key in self._share_config(config, document, mark, written)[1]:
                if key not in self.first_marks:
                    self.first_marks[key] = mark

    def choose_labels(self) -> list[Problem]:
        """Choose the labels; return a problem for each name that two distinct metrics have."""
        self.labels, problems = label_metrics(self.first_marks)
        return problems

    def specs(self, configs: Sequence[Metric] | None, raw: Any, document: Document, *, inherited: bool) -> Specs:
        """Return the specs for a list of metrics; `raw` is the list as written."""
        found: list[MetricSpec] = []
        for config, written in zip(configs or (), raw or (), strict=True):
            mark = document.mark(written.line, written.column)
            shared, keys = self._share_config(config, document, mark, written)
            found += (MetricSpec(shared, self.labels[key], mark, inherited, k) for k, key in keys)
        return tuple(found)

    def make_unlabelled_spec(self, config: Metric, entry: Any, document: Document) -> MetricSpec:
        """Return the spec for an entry whose evaluations are not recorded. Its label need not be unique."""
        mark = document.mark(entry.line, entry.column)
        shared, _ = self._share_config(config, document, mark, entry)
        return MetricSpec(shared, config.name or config.base_name(None), mark, inherited=False)

    def _share_config(
        self, config: Metric, document: Document, mark: SourceMark, entry: Any
    ) -> tuple[Metric, tuple[tuple[int | None, MetricKey], ...]]:
        """Return the metric with the content of its file, and the (cut-off rank, key) of each of its evaluations. Equal
        entries share one object."""
        folder = posixpath.dirname(document.file) if config.NAMES_FILE else ""
        full = (type(config), folder, *(freeze(value) for value in config.__dict__.values()))
        if full not in self._known:
            if config.NAMES_FILE:
                try:
                    config = config.with_file(partial(_join_path, folder), self._checkout)
                except EntryError as error:
                    self.problems += error.problems(entry, document)
                except (OSError, ValueError) as error:
                    self.problems.append(Problem(mark, "", _file_problem(error)))
            config = config.with_tools(self._tools)
            self._known[full] = (config, tuple((k, metric_key(config, k)) for k in config.cut_offs()))
        return self._known[full]


def _join_path(folder: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(folder, path))


def _file_problem(error: OSError | ValueError) -> str:
    if isinstance(error, RefusedFileError):
        return f"the file {error.clause}"
    return f"the file {error.filename} cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)


def _turn_specs(specs: Specs) -> Specs:
    return tuple(spec for spec in specs if not spec.config.concerns_conversation)


class CaseBuilder:
    """Builds the cases of one suite."""

    def __init__(self, document: Document, policy: Policy, policy_document: Document, table: MetricTable) -> None:
        """Set the values that all cases share."""
        self._document = document
        self._policy = policy
        self._policy_document = policy_document
        self._table = table
        self._factory = ExpectationFactory()
        self._suite_specs: Specs = ()
        self._suite_specs_of_one_turn: Specs = ()
        self._last_list: Any = None
        self._last_specs: Specs = ()

    def set_suite_metrics(self, specs: Specs) -> None:
        """Set the metrics of the cases that list no metrics."""
        self._suite_specs = specs
        one_turn = _turn_specs(specs)
        # Sharing one tuple keeps large suites small.
        self._suite_specs_of_one_turn = specs if len(one_turn) == len(specs) else one_turn

    def build(
        self, entry: CaseEntry, raw: Any, case_id: str, digest: str, overlay: CaseOverlay | None, raw_overlay: Any
    ) -> Case:
        """Build one case.

        Args:
            entry: the case.
            raw: the case as written, with positions.
            case_id: id of the case.
            digest: question hash of the case.
            overlay: the policy file's additions; None if it has none.
            raw_overlay: the overlay as written.
        """
        mark = self._document.mark(raw.line, raw.column)
        trajectory: tuple[ExpectedTool, ...] | None = None
        gains: Mapping[str, float] | None = None
        added: Specs = ()
        checks: Specs = ()
        tags: tuple[str, ...] = ()
        weight: float | None = None
        if isinstance(entry, TableCase):
            tags, weight = tuple(entry.tags or ()), entry.weight
        if overlay is not None:
            trajectory, gains = _trajectory(overlay), chunk_gains(overlay.retrieval)
            written = raw_overlay.get("evaluations")
            added = self._table.specs(overlay.evaluations, written, self._policy_document, inherited=False)
            written = raw_overlay.get(EXPECT)
            checks = self._table.specs(overlay.expect, written, self._policy_document, inherited=False)
            tags = tuple(dict.fromkeys((*tags, *(overlay.tags or ()))))
            weight = weight if overlay.weight is None else overlay.weight
            if overlay.ground_truths is not None:
                entry = entry.with_answers(overlay.ground_truths)
                digest = question_with_answers(digest, entry)
        case_specs = self._list_specs(entry.evaluations, raw.get("evaluations"))
        turns = self._build_turns(entry, raw, case_specs, added)
        if overlay is not None:
            turns[-1] = replace(
                turns[-1],
                expected_trajectory=trajectory,
                ground_truth_chunk_ids=gains,
                metrics=turns[-1].metrics + checks,
            )
        if entry.turns is not None and (case_specs or added):
            turns = _allow_skips(turns, (*case_specs, *added))
        repeat, least = trials_of(self._policy, overlay)
        simulation = entry.simulate
        return Case(
            id=case_id,
            name=entry.name,
            content_hash=content_hash(digest, trajectory, gains),
            mark=mark,
            turns=tuple(turns),
            multi_turn=entry.turns is not None or simulation is not None,
            tags=tags,
            weight=1.0 if weight is None else weight,
            repeat=repeat,
            min_pass=least,
            last=self._last_mark(raw, mark),
            simulation=simulation,
            stop=() if simulation is None else tuple(self._stop_checks(simulation, raw["simulate"].get(STOP))),
        )

    def _stop_checks(self, simulation: Simulation, raw: Any) -> Iterator[StopCheck]:
        for check, written in zip(simulation.stop_checks, raw or (), strict=True):
            if isinstance(check, Metric):
                spec = self._table.make_unlabelled_spec(check, written, self._document)
                yield StopCheck(spec.label, spec)
            else:
                yield StopCheck("expected_tools", tools=self._factory.build(check))

    def _last_mark(self, raw: Any, mark: SourceMark) -> SourceMark:
        place = last_position(raw)
        # Sharing one mark keeps large tables small.
        return mark if place == (mark.line, mark.column) else self._document.mark(*place)

    def _build_turns(self, entry: CaseEntry, raw: Any, case_specs: Specs, parameter_specs: Specs) -> list[Turn]:
        if entry.turns is None:
            return [self._build_turn(0, entry, raw, (case_specs or self._suite_specs) + parameter_specs)]
        turns: list[Turn] = []
        last = len(entry.turns) - 1
        for index, (turn, written) in enumerate(zip(entry.turns, raw["turns"], strict=True)):
            specs = self._list_specs(turn.evaluations, written.get("evaluations")) or case_specs
            if index == last:
                specs = (specs or self._suite_specs) + parameter_specs
            else:
                specs = (_turn_specs(specs) if specs else self._suite_specs_of_one_turn) + _turn_specs(parameter_specs)
            turns.append(self._build_turn(index, turn, written, specs))
        return turns

    def _build_turn(self, index: int, entry: CaseEntry | TurnEntry, raw: Any, specs: Specs) -> Turn:
        checks = self._table.specs(entry.expect, raw.get(EXPECT), self._document, inherited=False)
        simulation = entry.simulate if isinstance(entry, CaseEntry) else None
        if simulation is not None:
            of_user = simulation.metrics_of_user
            checks += self._table.specs(of_user, [raw["simulate"]] * len(of_user), self._document, inherited=False)
        config = entry.turn_config if isinstance(entry, TurnEntry) else None
        return Turn(
            index=index,
            input=entry.input or "",
            mark=self._document.mark(raw.line, raw.column),
            ground_truth=entry.expected_answer,
            expected_tools=self._factory.build(entry.expected_tools),
            files=tuple(self._resolve_file(file) for file in entry.files or ()),
            retrieval_context=None if entry.retrieval_context is None else tuple(entry.retrieval_context),
            turn_config=config or _NO_CONFIG,
            metrics=specs + checks if checks else specs,
            simulated_user=None if simulation is None else simulation.facts(),
            references=entry.references,
        )

    def _resolve_file(self, file: FileInput) -> FileInput:
        if file.path is None:
            return file
        folder = posixpath.dirname(self._document.file)
        return file.model_copy(update={"path": _join_path(folder, file.path)})

    def _list_specs(self, configs: Sequence[Metric] | None, raw: Any) -> Specs:
        if not configs:
            return ()
        # An aliased list is one object, so consecutive cases share its specs.
        if raw is not self._last_list:
            self._last_list, self._last_specs = raw, self._table.specs(configs, raw, self._document, inherited=False)
        return self._last_specs


def _allow_skips(turns: Sequence[Turn], case_specs: Specs) -> list[Turn]:
    """Return the turns of a conversation, with each metric of the case allowed to be skipped on turns without its
    inputs if another turn has its inputs."""
    softened = list(turns)
    for spec in case_specs:
        lacking = [turn.index for turn in turns if spec in turn.metrics and missing_static_inputs(spec, turn)]
        if lacking and len(lacking) < sum(spec in turn.metrics for turn in turns):
            skippable = replace(spec, inherited=True)
            for index in lacking:
                metrics = tuple(skippable if one is spec else one for one in softened[index].metrics)
                softened[index] = replace(softened[index], metrics=metrics)
    return softened


def _trajectory(overlay: CaseOverlay) -> tuple[ExpectedTool, ...] | None:
    steps = overlay.expected_trajectory
    return None if steps is None else tuple(expected_tool(step) for step in steps)


def chunk_gains(retrieval: RetrievalOverlay | None) -> Mapping[str, float] | None:
    """Return the gain of each relevant chunk by id, 1.0 each for a plain list of chunks; None if `retrieval` is
    None."""
    if retrieval is None:
        return None
    chunks = retrieval.ground_truth_chunk_ids
    return dict(chunks) if isinstance(chunks, dict) else dict.fromkeys(chunks, 1.0)


def misplaced_metrics(entry: CaseEntry, raw: Any, document: Document, case: int) -> list[Problem]:
    """Return problems of conversation metrics that are listed on a turn before the last."""
    problems: list[Problem] = []
    for index, turn in enumerate((entry.turns or ())[:-1]):
        for place, config in enumerate(turn.evaluations or ()):
            if config.concerns_conversation:
                written = raw["turns"][index]["evaluations"][place]
                field = field_path(("test_cases", case, "turns", index, "evaluations", place))
                message = f"{config.type} grades the whole conversation: list it on the last turn or on the case"
                problems.append(Problem(document.mark(written.line, written.column), field, message))
    return problems
