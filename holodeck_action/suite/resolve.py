"""From validated entries to the cases that run: what the policy file says of them, metric resolution, shared values."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.suite.applicability import missing_static_inputs
from holodeck_action.suite.errors import Problem, SourceMark, field_path, quoted
from holodeck_action.suite.expectations import ExpectationFactory, expected_tool
from holodeck_action.suite.identity import content_hash
from holodeck_action.suite.labels import MetricKey, freeze, label_metrics, metric_key
from holodeck_action.suite.messages import did_you_mean
from holodeck_action.suite.model.cases import CaseEntry, FileInput, TurnEntry
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.model.policy import CaseOverlay, Policy, QuarantineEntry, RetrievalOverlay
from holodeck_action.suite.turn_texts import TurnTexts
from holodeck_action.suite.values import Case, ExpectedTool, MetricSpec, Turn
from holodeck_action.suite.yaml.document import Document, Path, last_position
from holodeck_action.text.kept_texts import KeptTexts

Entry = TypeVar("Entry")
_MANY = 10


class CaseIndex(Struct, frozen=True):
    """The cases of a suite by id and by name; positions in the file's order."""

    ids: Sequence[str]
    by_id: Mapping[str, int]
    by_name: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, names: Sequence[str | None], ids: Sequence[str]) -> CaseIndex:
        """Index cases given by name and id."""
        by_name: dict[str, tuple[int, ...]] = {}
        for index, name in enumerate(names):
            if name is not None:
                by_name[name] = (*by_name.get(name, ()), index)
        return cls(ids, {found: index for index, found in enumerate(ids)}, by_name)

    def find(self, reference: str) -> int | str:
        """The case that a name or id means, or a sentence that says why there is not exactly one."""
        found = set(self.by_name.get(reference, ()))
        if reference in self.by_id:
            found.add(self.by_id[reference])
        if len(found) == 1:
            return found.pop()
        if not found:
            guess = did_you_mean(reference, [*self.by_name, *self.ids])
            return f"{quoted(reference)} is no case of this suite{guess or self._options()}"
        ids = [self.ids[index] for index in sorted(found)]
        shown = ", ".join(ids[:_MANY]) + (", …" if len(ids) > _MANY else "")
        return f"{quoted(reference)} is the name of {len(ids)} cases (allowed: one of their ids {shown})"

    def _options(self) -> str:
        if len(self.ids) > _MANY:
            return ""
        named = {found[0]: name for name, found in self.by_name.items() if len(found) == 1}
        return f" (allowed: {', '.join(quoted(named.get(index, case_id)) for index, case_id in enumerate(self.ids))})"


def overlays_by_case(
    policy: Policy, cases: CaseIndex, document: Document
) -> tuple[dict[int, CaseOverlay], dict[int, Any], list[Problem]]:
    """Match the overlays with their cases.

    Returns:
        Overlay by case, the overlay as written by case, and a problem for each that does not mean exactly one case.
    """
    found, problems = _matched(policy.cases.items(), cases, document, lambda key: ("cases", key), at_key=True)
    raw = {index: document.root["cases"][key] for index, (key, _) in found.items()}
    problems += _trial_problems(policy, {index: overlay for index, (_, overlay) in found.items()}, raw, document)
    return {index: overlay for index, (_, overlay) in found.items()}, raw, problems


def resolved_quarantine(
    policy: Policy, cases: CaseIndex, document: Document
) -> tuple[tuple[QuarantineEntry, ...], list[Problem]]:
    """The quarantine with ids for names, and a problem for each entry that does not mean exactly one case."""
    entries = [(entry.case, entry) for entry in policy.quarantine]
    places = iter(range(len(entries)))
    found, problems = _matched(entries, cases, document, lambda _: ("quarantine", next(places), "case"), at_key=False)
    resolved = (entry.model_copy(update={"case": cases.ids[index]}) for index, (_, entry) in found.items())
    return tuple(resolved), problems


def _matched(
    entries: Any, cases: CaseIndex, document: Document, path_of: Callable[[str], Path], *, at_key: bool
) -> tuple[dict[int, tuple[str, Any]], list[Problem]]:
    found: dict[int, tuple[str, Any]] = {}
    problems: list[Problem] = []
    for reference, entry in entries:
        path = path_of(reference)
        index = cases.find(reference)
        if isinstance(index, int) and index in found:
            index = f"{quoted(reference)} means the same case as {quoted(found[index][0])}: one entry per case"
        if isinstance(index, str):
            field = field_path(path[:-1] if at_key else path)
            problems.append(Problem(document.place(path, key=at_key), field, index))
        else:
            found[index] = (reference, entry)
    return found, problems


def _trial_problems(
    policy: Policy, overlays: Mapping[int, CaseOverlay], raw: Mapping[int, Any], document: Document
) -> list[Problem]:
    problems: list[Problem] = []
    if (policy.trials.min_pass or 1) > policy.trials.repeat:
        problems.append(_too_many(policy.trials.repeat, ("trials", "min_pass"), document))
    for index, overlay in overlays.items():
        repeat, least = trials_of(policy, overlay)
        if (least or 1) > repeat and (overlay.repeat is not None or overlay.min_pass is not None):
            key = next(key for key, value in document.root["cases"].items() if value is raw[index])
            field = "min_pass" if overlay.min_pass is not None else "repeat"
            problems.append(_too_many(repeat, ("cases", key, field), document))
    return problems


def _too_many(repeat: int, path: Path, document: Document) -> Problem:
    message = f"more trials must pass than there are (allowed: min_pass from 1 to repeat, which is {repeat})"
    return document.problem(path, message)


def trials_of(policy: Policy, overlay: CaseOverlay | None) -> tuple[int, int | None]:
    """Number of trials of a case and how many must pass (None: all), the suite's own where the overlay is silent."""
    repeat, least = policy.trials.repeat, policy.trials.min_pass
    if overlay is not None:
        repeat = overlay.repeat if overlay.repeat is not None else repeat
        least = overlay.min_pass if overlay.min_pass is not None else least
    return repeat, least


Specs = tuple[MetricSpec, ...]
_NO_CONFIG: Mapping[str, Any] = MappingProxyType({})


class MetricTable:
    """Every metric of a suite: equal configurations are kept once, labels are chosen when all are known."""

    def __init__(self) -> None:
        self.first_marks: dict[MetricKey, SourceMark] = {}
        self.labels: dict[MetricKey, str] = {}
        self._known: dict[tuple[Any, ...], tuple[Metric, tuple[tuple[int | None, MetricKey], ...]]] = {}

    def add(self, configs: Sequence[Metric] | None, raw: Any, document: Document) -> None:
        """Note the metrics of one list, with the list as written."""
        for config, written in zip(configs or (), raw or (), strict=True):
            for _, key in self._entry(config)[1]:
                if key not in self.first_marks:
                    self.first_marks[key] = document.mark(written.line, written.column)

    def choose_labels(self) -> list[Problem]:
        """Choose the labels; a problem for every name that means two things."""
        self.labels, problems = label_metrics(self.first_marks)
        return problems

    def specs(self, configs: Sequence[Metric] | None, raw: Any, document: Document, *, inherited: bool) -> Specs:
        """The evaluations that one list asks for."""
        found: list[MetricSpec] = []
        for config, written in zip(configs or (), raw or (), strict=True):
            shared, keys = self._entry(config)
            mark = document.mark(written.line, written.column)
            found += (MetricSpec(shared, self.labels[key], mark, inherited, k) for k, key in keys)
        return tuple(found)

    def _entry(self, config: Metric) -> tuple[Metric, tuple[tuple[int | None, MetricKey], ...]]:
        full = (type(config), *(freeze(value) for value in config.__dict__.values()))
        if full not in self._known:
            self._known[full] = (config, tuple((k, metric_key(config, k)) for k in config.cut_offs()))
        return self._known[full]


def _of_one_turn(specs: Specs) -> Specs:
    return tuple(spec for spec in specs if not spec.config.concerns_conversation)


class CaseBuilder:
    """Builds the cases of one suite."""

    def __init__(
        self, document: Document, policy: Policy, policy_document: Document, table: MetricTable, texts: KeptTexts
    ) -> None:
        """Take what the cases are made of; `texts` takes theirs."""
        self._document = document
        self._texts = texts
        self._policy = policy
        self._policy_document = policy_document
        self._table = table
        self._factory = ExpectationFactory()
        self._suite_specs: Specs = ()
        self._suite_specs_of_one_turn: Specs = ()
        self._last_list: Any = None
        self._last_specs: Specs = ()

    def set_suite_metrics(self, specs: Specs) -> None:
        """Set the metrics of every case that lists none of its own."""
        self._suite_specs = specs
        one_turn = _of_one_turn(specs)
        # Sharing one tuple keeps large suites small.
        self._suite_specs_of_one_turn = specs if len(one_turn) == len(specs) else one_turn

    def build(
        self, entry: CaseEntry, raw: Any, found: str, asked: str, overlay: CaseOverlay | None, raw_overlay: Any
    ) -> Case:
        """Build one case.

        Args:
            entry: the case.
            raw: the case as written, with marks.
            found: its id.
            asked: hash of what it asks.
            overlay: what the policy file adds to it.
            raw_overlay: the overlay as written.
        """
        mark = self._document.mark(raw.line, raw.column)
        trajectory: tuple[ExpectedTool, ...] | None = None
        gains: Mapping[str, float] | None = None
        added: Specs = ()
        tags: tuple[str, ...] = ()
        if overlay is not None:
            trajectory, gains = _trajectory(overlay), chunk_gains(overlay.retrieval)
            written = raw_overlay.get("evaluations")
            added = self._table.specs(overlay.evaluations, written, self._policy_document, inherited=False)
            tags = tuple(overlay.tags or ())
        case_specs = self._listed(entry.evaluations, raw.get("evaluations"))
        turns = self._turns(entry, raw, mark, case_specs, added)
        if overlay is not None:
            turns[-1] = replace(turns[-1], expected_trajectory=trajectory, ground_truth_chunk_ids=gains)
        if entry.turns is not None and (case_specs or added):
            turns = _soften(turns, (*case_specs, *added))
        repeat, least = trials_of(self._policy, overlay)
        return Case(
            id=found,
            name=entry.name,
            content_hash=content_hash(asked, trajectory, gains),
            mark=mark,
            turns=tuple(turns),
            multi_turn=entry.turns is not None,
            tags=tags,
            weight=overlay.weight if overlay is not None and overlay.weight is not None else 1.0,
            repeat=repeat,
            min_pass=least,
            last=self._last(raw, mark),
        )

    def _last(self, raw: Any, mark: SourceMark) -> SourceMark:
        place = last_position(raw)
        # Sharing one mark keeps large tables small.
        return mark if place == (mark.line, mark.column) else self._document.mark(*place)

    def _turns(self, entry: CaseEntry, raw: Any, mark: SourceMark, case_specs: Specs, added: Specs) -> list[Turn]:
        if entry.turns is None:
            return [self._turn(0, entry, mark, (case_specs or self._suite_specs) + added)]
        turns: list[Turn] = []
        last = len(entry.turns) - 1
        for index, (turn, written) in enumerate(zip(entry.turns, raw["turns"], strict=True)):
            specs = self._listed(turn.evaluations, written.get("evaluations")) or case_specs
            if index == last:
                specs = (specs or self._suite_specs) + added
            else:
                specs = (_of_one_turn(specs) if specs else self._suite_specs_of_one_turn) + _of_one_turn(added)
            turns.append(self._turn(index, turn, self._document.mark(written.line, written.column), specs))
        return turns

    def _turn(self, index: int, entry: CaseEntry | TurnEntry, mark: SourceMark, specs: Specs) -> Turn:
        config = entry.turn_config if isinstance(entry, TurnEntry) else None
        return Turn(
            index=index,
            texts=TurnTexts(entry.input or "", entry.ground_truth, self._texts),
            mark=mark,
            expected_tools=self._factory.build(entry.expected_tools),
            files=tuple(self._file(file) for file in entry.files or ()),
            retrieval_context=None if entry.retrieval_context is None else tuple(entry.retrieval_context),
            turn_config=config or _NO_CONFIG,
            metrics=specs,
        )

    def _file(self, file: FileInput) -> FileInput:
        if file.path is None:
            return file
        folder = posixpath.dirname(self._document.file)
        return file.model_copy(update={"path": posixpath.normpath(posixpath.join(folder, file.path))})

    def _listed(self, configs: Sequence[Metric] | None, raw: Any) -> Specs:
        if not configs:
            return ()
        # An aliased list is one object: its specs are shared by the cases that follow one another.
        if raw is not self._last_list:
            self._last_list, self._last_specs = raw, self._table.specs(configs, raw, self._document, inherited=False)
        return self._last_specs


def _soften(turns: Sequence[Turn], case_specs: Specs) -> list[Turn]:
    """Let a metric of the whole conversation skip the turns that lack its inputs, if another turn has them."""
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
    """Gain by id of the relevant chunk; 1.0 each for a plain list."""
    if retrieval is None:
        return None
    chunks = retrieval.ground_truth_chunk_ids
    return dict(chunks) if isinstance(chunks, dict) else dict.fromkeys(chunks, 1.0)


def misplaced_metrics(entry: CaseEntry, raw: Any, document: Document, case: int) -> list[Problem]:
    """Problems for metrics of the whole conversation that a turn before the last lists."""
    problems: list[Problem] = []
    for index, turn in enumerate((entry.turns or ())[:-1]):
        for place, config in enumerate(turn.evaluations or ()):
            if config.concerns_conversation:
                written = raw["turns"][index]["evaluations"][place]
                field = field_path(("test_cases", case, "turns", index, "evaluations", place))
                message = f"{config.type} grades the whole conversation: list it on the last turn or on the case"
                problems.append(Problem(document.mark(written.line, written.column), field, message))
    return problems
