"""One case over a table of values: `parameters` of the policy file, for `${{NAME}}` in the texts of a case."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from holodeck_action.suite.cases.sources import CaseFile, Sources
from holodeck_action.suite.errors import Problem, field_path, quoted
from holodeck_action.suite.model.policy import CaseOverlay, Policy
from holodeck_action.suite.yaml.document import MarkedList, MarkedMap

_PLACEHOLDER = re.compile(r"\$\{\{\s*([A-Za-z_]\w*)\s*\}\}")


def expand_cases(sources: Sources, policy: Policy) -> Policy:
    """Put a case for each row of `parameters` in the place of the case that has them.

    Args:
        sources: the cases, which change; takes problems.
        policy: its entries of `cases` have the parameters.

    Returns:
        The policy, in which such an entry stands for each of its cases, by their names.
    """
    overlays: dict[str, CaseOverlay] = {}
    for key, overlay in policy.cases.items():
        if overlay.parameters is None:
            overlays[key] = overlay
            continue
        names = _expanded(sources, key, overlay.parameters)
        overlays.update(dict.fromkeys(names, overlay))
        assert sources.policy is not None
        written = sources.policy.root["cases"]
        for name in names:
            written.setdefault(name, written[key])
    return policy.model_copy(update={"cases": overlays})


def _expanded(sources: Sources, key: str, rows: list[dict[str, Any]]) -> list[str]:
    """Expand one case; return the names of what comes of it."""

    def refuse(message: str, *place: str | int) -> list[str]:
        assert sources.policy is not None
        path = ("cases", key, "parameters", *place)
        sources.problems.append(Problem(sources.policy.place(path), field_path(path), message))
        return []

    found = list(_named(sources.case_files, key))
    if len(found) != 1:
        return refuse(f"{quoted(key)} is the name of {len(found)} cases (required: of one, which has the placeholders)")
    [(file, index)] = found
    template = file.cases[index]
    wanted = set(_placeholders(template))
    if not wanted:
        return refuse("the texts of the case have no placeholder, such as ${{order}}")
    made: dict[str, Any] = {}
    for number, row in enumerate(rows):
        for name in sorted(wanted ^ row.keys()):
            reason = "has no value for the placeholder" if name in wanted else "has a value that no text asks for:"
            return refuse(f"the row {reason} {quoted(name)}", number)
        values = {name: _text(value) for name, value in row.items()}
        case = _filled(template, values)
        if case["name"] == key:
            case["name"] = f"{key} [{', '.join(' '.join(value.split()) for value in values.values())}]"
        if case["name"] in made:
            return refuse(f"two rows give the name {quoted(case['name'])}: let their values differ", number)
        made[case["name"]] = case
    file.cases = [*file.cases[:index], *made.values(), *file.cases[index + 1 :]]
    return list(made)


def _named(files: list[CaseFile], name: str) -> Iterator[tuple[CaseFile, int]]:
    for file in files:
        for index, raw in enumerate(file.cases):
            if isinstance(raw, MarkedMap) and raw.get("name") == name:
                yield file, index


def _placeholders(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from _PLACEHOLDER.findall(value)
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _placeholders(item)


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    """Return data with values for its placeholders, where it stands."""
    made: Any
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda found: values[found[1]], value)
    if isinstance(value, MarkedMap):
        made = MarkedMap((key, _filled(item, values)) for key, item in value.items())
    elif isinstance(value, MarkedList):
        made = MarkedList(_filled(item, values) for item in value)
    else:
        return value
    made.line, made.column, made.marks = value.line, value.column, value.marks
    return made


def _text(value: str | bool | float) -> str:
    return value if isinstance(value, str) else str(value).lower()
