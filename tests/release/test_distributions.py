"""The wheel and its source: sound, and the same bytes whoever builds them."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.release.distributions import Distributions, build, copy_tracked

pytestmark = [pytest.mark.release, pytest.mark.timeout(600)]


def _check(program: str, *arguments: str | Path) -> None:
    command = [Path(sys.executable).with_name(program), *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_index_would_accept_them(distributions: Distributions) -> None:
    _check("twine", "check", "--strict", distributions.wheel, distributions.source)


def test_the_wheel_has_the_files_of_a_wheel(distributions: Distributions) -> None:
    _check("check-wheel-contents", distributions.wheel)


def test_everything_that_git_knows_of_the_package_is_in_the_wheel(tree: Path, distributions: Distributions) -> None:
    with zipfile.ZipFile(distributions.wheel) as wheel:
        inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
    packages = [file for name in ("holodeck_action", "holodeck-stubs") for file in (tree / name).rglob("*")]
    expected = {str(file.relative_to(tree)) for file in packages if file.is_file()}
    expected |= {f"holodeck_action/templates/{file.name}" for file in (tree / "templates").iterdir()}
    assert inside == expected


def test_another_build_has_the_same_bytes(tmp_path: Path, distributions: Distributions) -> None:
    """In another folder, at another time, in another zone, language and order of sets, with other rights of files."""
    before = os.umask(0o077)
    try:
        copied = copy_tracked(tmp_path / "elsewhere" / "copy")
    finally:
        os.umask(before)
    for file in copied.rglob("*"):
        os.utime(file, (1_000_000_000, 1_000_000_000))
    build(copied, tmp_path / "again", TZ="Asia/Tokyo", LC_ALL="C", PYTHONHASHSEED="7")
    again = Distributions(tmp_path / "again")
    assert again.source.read_bytes() == distributions.source.read_bytes()
    assert again.wheel.read_bytes() == distributions.wheel.read_bytes()


def test_the_wheel_of_the_tree_is_the_wheel_of_its_source(
    tmp_path: Path, tree: Path, distributions: Distributions
) -> None:
    """Users who build from the source get what others download."""
    build(tree, tmp_path / "direct", "--wheel")
    [direct] = (tmp_path / "direct").glob("*.whl")
    assert direct.read_bytes() == distributions.wheel.read_bytes()
    with tarfile.open(distributions.source) as source:
        source.extractall(tmp_path / "source", filter="data")
    [unpacked] = (tmp_path / "source").iterdir()
    build(unpacked, tmp_path / "unpacked", "--wheel")
    [of_source] = (tmp_path / "unpacked").glob("*.whl")
    assert of_source.read_bytes() == distributions.wheel.read_bytes()
