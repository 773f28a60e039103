"""What the image is built from is what uv.lock says, on both platforms it is published for."""

from __future__ import annotations

import re

import pytest

from tests.image.lock import PROJECT, ROOT, everything_installed, hashes, locked_packages, with_dependencies


def requirements() -> dict[str, tuple[str, set[str]]]:
    """Name to version and hashes in requirements/image.txt."""
    text = (ROOT / "requirements" / "image.txt").read_text(encoding="utf-8")
    lines = text.replace("\\\n", " ").splitlines()
    found = {}
    for line in filter(None, (line.partition("#")[0].strip() for line in lines)):
        pinned = re.fullmatch(r"([a-z0-9-]+)==(\S+)((?: +--hash=\S+)+)", line)
        assert pinned, line
        found[pinned[1]] = (pinned[2], set(re.findall(r"--hash=(\S+)", pinned[3])))
    return found


def test_the_pins_for_the_builder_are_those_of_the_lock() -> None:
    packages = locked_packages()
    wanted = with_dependencies(packages[PROJECT]["dev-dependencies"]["image"])

    assert requirements() == {name: (packages[name]["version"], hashes(packages[name])) for name in wanted}, (
        "run: make requirements"
    )


def fits(wheel: str, machine: str) -> bool:
    """Whether the file is for any machine, or for this one with glibc."""
    return wheel.endswith("-any.whl") or ("manylinux_" in wheel and machine in wheel)


@pytest.mark.full
def test_everything_comes_as_wheels_for_both_platforms() -> None:
    packages = locked_packages()
    only_windows = {"pywin32"}
    # Plain Python without a wheel: the image builds it with the setuptools of the lock.
    from_source = {"rouge-score"}
    missing = [
        f"{name} on {machine}"
        for name in sorted((everything_installed() | set(requirements())) - only_windows - from_source)
        for machine in ("x86_64", "aarch64")
        if not any(fits(wheel["url"], machine) for wheel in packages[name].get("wheels", ()))
    ]

    assert missing == []
    assert from_source | {"setuptools"} <= everything_installed()
