"""The examples of frameworks: where they are, how they reach the fake model server, and what their records show."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from holodeck_action.record.result_files import read_record
from holodeck_action.suite.model.named_models import SMALL
from tests.llm.models import KEY, FakeModels
from tests.targets.shop_model import ANSWERS, ORDER

FOLDER = Path(__file__).parents[3] / "examples" / "frameworks"
EXAMPLES = sorted(each.name for each in FOLDER.iterdir() if each.is_dir())
OF_THE_MACHINE = ("UV_", "SSL_CERT_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
"""How the names of variables begin with which uv reaches the package index."""
INSTALLING = "note: installing requirements.txt in "


def copied(name: str, folder: Path) -> Path:
    """Copy an example, as a user would start from it."""
    return shutil.copytree(FOLDER / name, folder, ignore=shutil.ignore_patterns("__pycache__"))


def variables(models: FakeModels) -> dict[str, str]:
    """The variables with which an example asks the fake model server, and uv the package index."""
    index = {name: value for name, value in os.environ.items() if name.upper().startswith(OF_THE_MACHINE)}
    return {**index, "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": models.openai_url}


def without_index(environ: Mapping[str, str]) -> dict[str, str]:
    """The same variables where nothing can be installed: there is no index, and nothing that was fetched before."""
    return {**environ, "UV_OFFLINE": "1", "UV_NO_CACHE": "1"}


def check_record(path: Path, tool: str = "find_order", model: str = SMALL) -> None:
    """Check that a record tells answers, calls with results, tokens and cost, and that state lasts two turns."""
    order, other, opening = read_record(path).cases
    assert [turn.response for turn in order.turns] == [ANSWERS["where is"].format("Leeds"), ANSWERS["when does"]]
    for turn in order.turns:
        assert turn.error is None
        (call,) = turn.tool_invocations or ()
        assert (call.name, call.args, call.error) == (tool, {"id": ORDER}, None)
        assert "Leeds" in str(call.result)
        assert turn.usage is not None
        assert (turn.usage.prompt_tokens, turn.usage.completion_tokens, turn.usage.cached_tokens) == (30, 10, 4)
        # 26 and 4 cached tokens of the prompt, 10 of the answer, at the list price.
        assert turn.usage.cost_usd == pytest.approx((26 * 0.1 + 4 * 0.01 + 10 * 0.5) / 1e6)
        assert str(turn.model).endswith(model)
    assert [turn.response for turn in other.turns] == [ANSWERS["where is"].format("York")]
    (turn,) = opening.turns
    assert (turn.response, turn.tool_invocations) == (ANSWERS["you open"], ())
