"""Each row of the tables of claims: its expression gives what the row says, and runs or looks up the product."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from scripts.build_conformance import Claim, claims

if TYPE_CHECKING:
    from tests.conformance.names import Names

pytestmark = pytest.mark.needs()
COSTLY = re.compile(
    r"\b(?:to_deepeval_model|by|export|after|valid|graded|judged|suite|agent|(?:api_)?sample|reader|MyEvaluator|evaluated)\b"
)
"""What starts a run, or imports DeepEval: names in expressions."""


@pytest.fixture(scope="session")
def names_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Names]]:
    """Makes the names that a document's rows use."""
    # Imported late: what they import is deleted where the core is tested alone.
    from tests.conformance.lab import Lab
    from tests.conformance.names import names_for

    with ExitStack() as stack:
        lab = Lab(tmp_path_factory.mktemp("lab"), stack)
        yield lambda document: names_for(document, lab)


def params() -> Iterator[object]:
    for number, claim in enumerate(claims()):
        if not claim.test:
            marks = [pytest.mark.full] if COSTLY.search(claim.expression) else []
            yield pytest.param(claim, id=f"{claim.document}-{number}", marks=marks)


def outcome(claim: Claim, names: Names) -> tuple[bool, str]:
    """Whether a row holds, and what its expression gave."""
    from tests.conformance.names import evaluate, refusal

    try:
        value = evaluate(claim.expression, names)
    except Exception as error:
        shown = refusal(error)
        return shown.startswith(claim.expected), shown
    try:
        expected = eval(claim.expected, names)
    except SyntaxError:
        return False, f"{value!r}, but no error"
    return value is expected or (value == expected and type(value) is not bool), repr(value)


@pytest.mark.parametrize("claim", [*params()])
def test_a_claim_holds(claim: Claim, names_of: Callable[[str], Names]) -> None:
    names = names_of(claim.document)
    holds, shown = outcome(claim, names)
    assert holds, f"{claim.heading}: {claim.text}: {claim.expression} gives {shown}, not {claim.expected}"
    assert names.touched, f"{claim.expression} has nothing to do with the product"


@pytest.mark.parametrize("expression", ["'actual_output' in ['actual_output']", "len('four')", "fields_of(Own)"])
def test_a_row_that_leaves_the_product_alone_is_found(expression: str, names_of: Callable[[str], Names]) -> None:
    import dataclasses

    from tests.conformance.names import evaluate

    names = names_of("gllm-evals-evaluators")
    names["Own"] = dataclasses.make_dataclass("Own", ["a"])
    evaluate(expression, names)
    assert not names.touched
