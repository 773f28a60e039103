"""The examples of frameworks in the built image, whose packages uv gets from the package index."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.extensions.frameworks.framework_examples import (
    EXAMPLES,
    INSTALLING,
    check_record,
    copied,
    variables,
    without_index,
)
from tests.image.conftest import WORKSPACE, Engine
from tests.llm.models import serve_models
from tests.targets.shop_model import shop_answer

pytestmark = [pytest.mark.image, pytest.mark.timeout(900)]

STEP = {"HOME": "/github/home", "GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": WORKSPACE}
QUIET = {"INPUT_OUTPUT-DIR": "out", "INPUT_COMMENT": "off", "INPUT_CHECK": "false", "INPUT_ARGS": "--no-summary"}


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_installs_its_framework_once(engine: Engine, tmp_path: Path, example: str) -> None:
    """The home folder of the runner keeps the packages for the next step."""
    workspace, home = copied(example, tmp_path / "workspace"), tmp_path / "home"
    home.mkdir()
    with serve_models(answer=shop_answer) as models:
        job = {**variables(models), **STEP, **QUIET}
        certificates = {Path(job[name]): job[name] for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if name in job}
        mounts = {workspace: WORKSPACE, home: "/github/home", **certificates}
        for installs in (True, False):
            given = job if installs else without_index(job)
            ended = engine.run(environ=given, mounts=mounts, network="host", timeout_s=600)
            assert ended.code == 0, ended
            assert (f"{INSTALLING}/github/home/.cache/" in ended.stdout) == installs
            check_record(workspace / "out" / "results.json")
