"""docs/fields.md and docs/api.md are as they are built, and what they say of a field is true."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from scripts import build_api_reference, build_metric_catalogue
from scripts.build_field_reference import (
    PAGE,
    POLICY_PAGE,
    RESULTS_PAGE,
    SECURITY_PAGE,
    build_page,
    with_error_table,
    with_gate_table,
    with_key_table,
)
from tests.commands.project import Project

pytestmark = pytest.mark.needs()


@pytest.mark.full
def test_the_page_is_as_it_is_built() -> None:
    assert PAGE.read_text(encoding="utf-8") == build_page(), "run make fields"
    policy = POLICY_PAGE.read_text(encoding="utf-8")
    assert policy == with_gate_table(policy), "run make fields"
    results = RESULTS_PAGE.read_text(encoding="utf-8")
    assert results == with_error_table(results), "run make fields"
    security = SECURITY_PAGE.read_text(encoding="utf-8")
    assert security == with_key_table(security), "run make fields"


def test_the_pages_of_the_python_api_and_of_all_metrics_are_as_they_are_built() -> None:
    for page in (build_api_reference, build_metric_catalogue):
        assert page.PAGE.read_text(encoding="utf-8") == page.build_page(), "run make fields"


def _examples(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, block in [("", schema), *schema["$defs"].items()]:
        for field, described in block.get("properties", {}).items():
            if "examples" in described:
                yield f"{name}.{field}", described


@pytest.mark.parametrize("document", ["agent", "policy"])
def test_examples_fit_their_fields(project: Project, document: str) -> None:
    schema = json.loads(project.run("schema", document).stdout)
    found = dict(_examples(schema))
    assert len(found) > 50
    for key, described in found.items():
        validator = Draft202012Validator({**described, "$defs": schema["$defs"]})
        for example in described["examples"]:
            assert not [error.message for error in validator.iter_errors(example)], key
