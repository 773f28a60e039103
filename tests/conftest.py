"""Fixtures of all tests."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.commands.project import Project
from tests.llm.models import FakeModels, serve_models

if TYPE_CHECKING:
    from tests.github.fake import FakeGitHub
    from tests.targets.service import Service

# One slow shared machine must not fail a property, and the same code is tried with the same examples.
settings.register_profile("default", deadline=None, max_examples=60, derandomize=True)
# The same properties with twenty times as many examples, drawn by chance: pytest --hypothesis-profile thorough.
settings.register_profile("thorough", deadline=None, max_examples=1200)
settings.load_profile("default")

# A run syncs its files to the disk a dozen times; in memory that takes no time. Containers may have little of it, or
# allow no programs there; the image's tests mount folders of the disk.
MEMORY = Path("/dev/shm")
USABLE = MEMORY.is_dir() and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC and shutil.disk_usage(MEMORY).free > 2**31
if USABLE and "IMAGE_ENGINE" not in os.environ:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# What a shell, a terminal or a CI has set is not the tests': a test gives what it needs.
FOREIGN = ("CI", "GITHUB_", "INPUT_", "HOLODECK_", "XDG_", "NO_COLOR", "FORCE_COLOR")
PROVIDERS = ("OPENAI_", "ANTHROPIC_", "AZURE_", "OLLAMA_")
for variable in [name for name in os.environ if name.startswith(FOREIGN + PROVIDERS)]:
    del os.environ[variable]
# Packages come through a proxy, if there is one; what listens on loopback does not.
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,::1,localhost"

# Outside of runs DeepEval is imported as it is: it must neither send nor store anything.
os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "1"


pytest_plugins = ("tests.plugins.costs", "tests.plugins.second_try")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, help="run the tests in a random order with this seed")
    parser.addoption("--without", default="", help="names of extensions that are deleted, with commas between them")


def pytest_configure() -> None:
    """Let signals end what tests start: `nohup`, or a shell's `&`, ignores them, and children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if absent := set(config.getoption("--without").split(",")) - {""}:
        unmet = [
            item for item in items if any(not mark.args or absent & {*mark.args} for mark in item.iter_markers("needs"))
        ]
        config.hook.pytest_deselected(items=unmet)
        items[:] = [item for item in items if item not in set(unmet)]
    # Runs of many seconds come first: at the end they would leave other processors without work.
    items.sort(key=lambda item: item.path.parent.name != "cluster")
    if (seed := config.getoption("--shuffle")) is not None:
        random.Random(seed).shuffle(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    # Look for garbage in what tests make, not again and again in ten thousand tests and the modules they import.
    gc.disable()
    _import_later_modules(session.config)
    return (yield)


def _import_later_modules(config: pytest.Config) -> None:
    """Let each worker begin at another module, so that it finds in the cache what the others have compiled."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    modules = sorted({path for name in config.args for path in (config.rootpath / name).rglob("test_*.py")})
    for path in modules[len(modules) * worker // workers :] if worker else ():
        # What cannot be imported is reported when it is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(path.relative_to(config.rootpath).with_suffix("").parts))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Project]:
    """An empty project folder; nothing may be written past the streams that the program was given."""
    yield Project(tmp_path)
    assert capsys.readouterr() == ("", "")


def pytest_xdist_auto_num_workers() -> int:
    """Give each two processors three workers: tests wait for processes, servers and deadlines, too."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return count + (count + 1) // 2


@pytest.fixture
def models(request: pytest.FixtureRequest) -> Iterator[FakeModels]:
    """A server that accepts `KEY` alone and echoes; the mark `models` has other arguments of `serve_models`."""
    mark = request.node.get_closest_marker("models")
    with serve_models(**({} if mark is None else mark.kwargs)) as models:
        yield models


@pytest.fixture
def service() -> Iterator[Service]:
    """An agent over HTTP; a test says how it responds."""
    from tests.targets.service import Service

    service = Service()
    yield service
    service.close()


@pytest.fixture
def hub() -> Iterator[FakeGitHub]:
    """A GitHub; a test that breaks its rules on purpose takes the violations (`hub.take_violations()`)."""
    # Imported late: most tests need none.
    from tests.github.fake import FakeGitHub

    with FakeGitHub() as hub:
        yield hub
        assert hub.violations == []
