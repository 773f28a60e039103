"""What is released, and an index that has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.release.distributions import Distributions, build, copy_tracked
from tests.release.package_index import PackageIndex, serve_packages


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the release."""
    return copy_tracked(tmp_path_factory.mktemp("release") / "tree")


@pytest.fixture(scope="session")
def distributions(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """The wheel, and the source of which it was built."""
    folder = tmp_path_factory.mktemp("packages")
    build(tree, folder)
    return Distributions(folder)


@pytest.fixture
def index(distributions: Distributions, tmp_path: Path) -> Iterator[PackageIndex]:
    """An index that has the distributions."""
    with serve_packages(distributions.folder, tmp_path / "index.log") as served:
        yield served
