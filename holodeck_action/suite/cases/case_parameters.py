"""Expansion of cases: `parameters` of the policy file give values for `${{NAME}}` in the texts of a case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holodeck_action.suite.cases.sources import CaseFile, Sources
from holodeck_action.suite.errors import Problem, field_path, quoted
from holodeck_action.suite.identity import slug
from holodeck_action.suite.model.policy import CaseOverlay, Policy
from holodeck_action.suite.yaml.document import MarkedList, MarkedMap
from holodeck_action.text.lazy_patterns import lazy_pattern

_PLACEHOLDER = lazy_pattern(r"\$\{\{\s*([A-Za-z_]\w*)\s*\}\}")


def expand_cases(sources: Sources, policy: Policy) -> Policy:
    """Replace each case that has `parameters` by one case for each row of parameters.

    Args:
        sources: the files of the suite; its cases are replaced, and problems are added to it.
        policy: the policy, whose entries of `cases` may have parameters.

    Returns:
        The policy, in which an entry with parameters is replaced by one entry for each new case.
    """
    overlays: dict[str, CaseOverlay] = {}
    for key, overlay in policy.cases.items():
        if overlay.parameters is None:
            overlays[key] = overlay
            continue
        names = _expand_case(sources, key, overlay.parameters)
        overlays.update(dict.fromkeys(names, overlay))
        assert sources.policy is not None
        written = sources.policy.root["cases"]
        for name in names:
            written.setdefault(name, written[key])
    return policy.model_copy(update={"cases": overlays})


def _expand_case(sources: Sources, key: str, rows: list[dict[str, Any]]) -> list[str]:
    """Expand one case, and return the names of the new cases."""

    def add_problem(message: str, *place: str | int) -> list[str]:
        assert sources.policy is not None
        path = ("cases", key, "parameters", *place)
        sources.problems.append(Problem(sources.policy.mark_at(path), field_path(path), message))
        return []

    found = list(_find_by_name(sources.case_files, key))
    if len(found) != 1:
        return add_problem(
            f"{quoted(key)} is the name of {len(found)} cases (required: the name of one case, which has the "
            "placeholders)"
        )
    [(file, index)] = found
    template = file.cases[index]
    wanted = set(_placeholders(template))
    if not wanted:
        return add_problem("the texts of the case have no placeholder, such as ${{order}}")
    made: dict[str, Any] = {}
    for number, row in enumerate(rows):
        for name in sorted(wanted ^ row.keys()):
            reason = "has no value for the placeholder" if name in wanted else "has a value for an unused placeholder:"
            return add_problem(f"the row {reason} {quoted(name)}", number)
        values = {name: _parameter_text(value) for name, value in row.items()}
        case = _fill_placeholders(template, values)
        if case["name"] == key:
            case["name"] = f"{key} [{', '.join(' '.join(value.split()) for value in values.values())}]"
        if isinstance(case.get("id"), str) and case["id"] == template["id"]:
            case["id"] = f"{case['id']}-{slug('-'.join(values.values()))}"
        if case["name"] in made:
            return add_problem(f"two rows give the name {quoted(case['name'])}: use different values", number)
        made[case["name"]] = case
    file.cases = [*file.cases[:index], *made.values(), *file.cases[index + 1 :]]
    return list(made)


def _find_by_name(case_files: list[CaseFile], name: str) -> Iterator[tuple[CaseFile, int]]:
    for file in case_files:
        for index, raw in enumerate(file.cases):
            if isinstance(raw, MarkedMap) and raw.get("name") == name:
                yield file, index


def _placeholders(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from _PLACEHOLDER.findall(value)
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _placeholders(item)


def _fill_placeholders(value: Any, values: Mapping[str, str]) -> Any:
    """Return data in which values replace the placeholders; positions are kept."""
    made: Any
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda found: values[found[1]], value)
    if isinstance(value, MarkedMap):
        made = MarkedMap((key, _fill_placeholders(item, values)) for key, item in value.items())
    elif isinstance(value, MarkedList):
        made = MarkedList(_fill_placeholders(item, values) for item in value)
    else:
        return value
    made.line, made.column, made.marks = value.line, value.column, value.marks
    return made


def _parameter_text(value: str | bool | float) -> str:
    return value if isinstance(value, str) else str(value).lower()
