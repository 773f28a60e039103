"""Which cases the policy file means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from holodeck_action.suite.document import Document
from holodeck_action.suite.errors import Problem, field_path, quoted
from holodeck_action.suite.messages import did_you_mean
from holodeck_action.suite.policy import CaseOverlay, Policy, QuarantineEntry
from holodeck_action.suite.validation import Path, position_of

Entry = TypeVar("Entry")
_MANY = 10


@dataclass(frozen=True, slots=True)
class CaseIndex:
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
            place = position_of(document, document.root, path, key=at_key)
            field = field_path(path[:-1] if at_key else path)
            problems.append(Problem(document.mark(*place), field, index))
        else:
            found[index] = (reference, entry)
    return found, problems


def _trial_problems(
    policy: Policy, overlays: Mapping[int, CaseOverlay], raw: Mapping[int, Any], document: Document
) -> list[Problem]:
    problems: list[Problem] = []
    if policy.trials.min_pass > policy.trials.repeat:
        problems.append(_too_many(policy.trials.repeat, ("trials", "min_pass"), document))
    for index, overlay in overlays.items():
        repeat, least = trials_of(policy, overlay)
        if least > repeat and (overlay.repeat is not None or overlay.min_pass is not None):
            key = next(key for key, value in document.root["cases"].items() if value is raw[index])
            field = "min_pass" if overlay.min_pass is not None else "repeat"
            problems.append(_too_many(repeat, ("cases", key, field), document))
    return problems


def _too_many(repeat: int, path: Path, document: Document) -> Problem:
    place = position_of(document, document.root, path)
    message = f"more trials must pass than there are (allowed: min_pass from 1 to repeat, which is {repeat})"
    return Problem(document.mark(*place), field_path(path), message)


def trials_of(policy: Policy, overlay: CaseOverlay | None) -> tuple[int, int]:
    """Number of trials of a case and how many must pass, the suite's own where the overlay is silent."""
    repeat, least = policy.trials.repeat, policy.trials.min_pass
    if overlay is not None:
        repeat = overlay.repeat if overlay.repeat is not None else repeat
        least = overlay.min_pass if overlay.min_pass is not None else least
    return repeat, least
