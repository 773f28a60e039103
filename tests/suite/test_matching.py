"""Patterns of files are those of `glob`, but no link is followed, and only so many names are looked at."""

from __future__ import annotations

import glob
import os
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.suite.checkout import Checkout
from holodeck_action.text.foreign import RefusedFileError

NAMES = st.sampled_from(["a", "ab", "b.yaml", "a.yaml", ".hidden", ".b.yaml", "[a]", "A", "é"])
FILES = st.lists(st.lists(NAMES, min_size=1, max_size=4).map("/".join), max_size=12)
PARTS = st.sampled_from(
    ["*", "**", "a*", "*.yaml", "?", "[ab]", "[!a]*", ".*", "a", "ab", "[[]a]", "*b*", "b.yaml", "é"]
)
PATTERNS = st.lists(PARTS, min_size=1, max_size=5).map("/".join)


@given(FILES, PATTERNS)
def test_a_pattern_matches_what_glob_matches(files: list[str], pattern: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for file in files:
            above = Path(file).parent
            # One name is either a file or a folder.
            if not any((place / part).is_file() for part in (above, *above.parents)) and not (place / file).exists():
                (place / above).mkdir(parents=True, exist_ok=True)
                (place / file).touch()
        found = [path.relative_to(place).as_posix() for path in Checkout.of(place, place).matching_files(pattern)]
        # A name with a slash at its end is that of a folder; `glob` gives it for a file, too.
        given = (each for each in glob.glob(pattern, root_dir=place, recursive=True) if not each.endswith("/"))
        expected = [each for each in given if (place / each).is_file()]
        if not glob.has_magic(pattern):
            expected = [pattern]
        # Our pattern `**` never gives a file twice.
        assert found == sorted(set(expected), key=Path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with links, beside a folder that is none of its business."""
    for name in ("outside/a.txt", "repo/.git/config", "repo/suite/a.txt", "repo/suite/inner/b.txt", "repo/c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    suite = tmp_path / "repo/suite"
    (suite / "out").symlink_to(tmp_path / "outside")
    (suite / "loop").symlink_to(suite)
    (suite / "link.txt").symlink_to(tmp_path / "outside/a.txt")
    (suite / "gone.txt").symlink_to(tmp_path / "nowhere")
    return suite


def test_links_are_names_only(folder: Path) -> None:
    def matching(pattern: str) -> list[str]:
        return [os.path.relpath(path, folder) for path in Checkout.of(folder, folder).matching_files(pattern)]

    # A link to a file is found; whoever opens it is told where it leads.
    assert matching("**/*.txt") == ["a.txt", "gone.txt", "inner/b.txt", "link.txt"]
    assert matching("*/*.txt") == ["inner/b.txt"]
    assert matching("loop/*.txt") == ["loop/a.txt", "loop/gone.txt", "loop/link.txt"]
    assert matching("../**/[bc].txt") == ["../c.txt", "inner/b.txt"]
    assert matching("../.g*/*") == []
    assert matching("../**/config") == []
    assert matching("none/*.txt") == matching("a.txt/*") == []
    with pytest.raises(RefusedFileError, match="is outside the checkout"):
        Checkout.of(folder, folder).check("link.txt")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("../../outside/*", "is outside the checkout"),
        ("out/*.txt", "is outside the checkout"),
        ("/proc/*/environ", "is outside the checkout"),
        ("../.git/*", "belongs to Git's data"),
        ("*/../../../outside/*", "has `..` after a wildcard (`*`, `?` or `[`): remove the `..`"),
        ("a\0/*", "is not a path of a file"),
    ],
)
def test_a_pattern_out_of_reach_is_refused(pattern: str, reason: str, folder: Path) -> None:
    with pytest.raises(RefusedFileError, match=re.escape(reason)):
        Checkout.of(folder, folder).matching_files(pattern)


def test_a_pattern_looks_at_so_many_names(folder: Path) -> None:
    checkout = Checkout.of(folder, folder)
    # Seven names: six in the folder, one below it.
    assert len(checkout.matching_files("**/*.txt", max_names=7)) == 4
    with pytest.raises(RefusedFileError, match="matches too many names: write a narrower pattern"):
        checkout.matching_files("**/*.txt", max_names=6)
    assert len(checkout.matching_files("inner/*.txt", max_names=1)) == 1
