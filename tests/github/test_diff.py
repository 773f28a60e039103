"""Which lines a patch shows, compared with git and with the diffs that difflib makes."""

from __future__ import annotations

import difflib
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.github.review import commentable_lines
from tests.github.fake.diff import places

TWO = "@@ -1,3 +1,4 @@ name: shop\n a\n-b\n+c\n+d\n e\n@@ -20,2 +21,2 @@\n-x\n+y\n z"


def test_added_lines_and_context_take_comments() -> None:
    assert commentable_lines(TWO) == {1, 2, 3, 4, 21, 22}


@pytest.mark.parametrize(
    ("patch", "lines"),
    [
        ("@@ -0,0 +1,2 @@\n+a\n+b", {1, 2}),
        ("@@ -0,0 +1 @@\n+a\n\\ No newline at end of file", {1}),
        ("@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file", {1}),
        ("@@ -1,2 +0,0 @@\n-a\n-b", set()),
        ("@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n", {1, 2}),
        ("@@ -1 +1 @@\n-@@ -1 +1 @@\n+@@ -9,9 +9,9 @@ no header\n", {1}),
        ("@@ -1 +1,2 @@\n a\x0cb\u2028c\n+\x85d", {1, 2}),
        ("@@ -1,2 +1 @@\n---- a\n ++ b", {1}),
    ],
)
def test_what_git_writes_is_read(patch: str, lines: set[int]) -> None:
    assert commentable_lines(patch) == lines


@pytest.mark.parametrize(
    "patch",
    [
        "",
        "no patch",
        "diff --git a/x b/x\n@@ -1 +1 @@\n-a\n+b",
        "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b",
        "@@ -1,3 +1,4 @@\n a\n-b\n+c",
        "@@ -1 +1 @@\n-a\n+b\n+c",
        "@@ -1 +1 @@\n-a\n+b\n c",
        "@@ -1,2 +1,2 @@\n a\n\n",
        "@@ -1 +1 @@\n-a\n*b",
        "@@ -1 +0 @@\n-a\n+b",
        "@@ -0,0 +0,0 @@",
        "@@ -1,1 +1,1\n-a\n+b",
        "@@ -a +b @@\n-a\n+b",
        "@@ -1 +99999999999999999999 @@\n-a\n+b",
        "@@@ -1 -1 +1 @@@\n  a",
        "\\ No newline at end of file",
        "@@ -1 +1 @@\n\\ No newline at end of file\n-a\n+b",
        "@@ -9 +9 @@\n-a\n+b\n@@ -1 +1 @@\n-a\n+b",
    ],
)
def test_what_is_no_patch_shows_no_line(patch: str) -> None:
    assert commentable_lines(patch) == frozenset()


LINES = st.lists(st.sampled_from(["a", "b", "", "@@ -1 +1 @@", "\\ No newline", "+", "-", "\r", " x"]), max_size=12)


@given(LINES, LINES, st.integers(0, 3))
def test_every_line_of_a_diff_is_told(old: list[str], new: list[str], context: int) -> None:
    diff = list(difflib.unified_diff(old, new, n=context, lineterm=""))[2:]
    patch = "\n".join(diff)
    lines = commentable_lines(patch)
    assert lines == {line for side, line in places(patch) if side == "RIGHT"}
    changed = {
        line
        for kind, _, _, start, end in difflib.SequenceMatcher(None, old, new).get_opcodes()
        for line in range(start + 1, end + 1)
        if kind != "equal"
    }
    assert changed <= lines
    assert lines <= set(range(1, len(new) + 1))


@given(st.text(alphabet="@-+ 0123456789,\\ab\n", max_size=60))
def test_any_text_is_read_without_an_error(patch: str) -> None:
    assert all(line >= 1 for line in commentable_lines(patch))


def test_a_diff_of_git_is_read(tmp_path: Path) -> None:
    numbers = [f"line {number}" for number in range(1, 61)]
    (tmp_path / "old").write_text("\n".join(numbers) + "\n")
    numbers[4:5] = ["changed", "added"]
    del numbers[40]
    (tmp_path / "new").write_text("\n".join(numbers))
    ran = subprocess.run(
        ["git", "diff", "--no-index", "old", "new"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    patch = ran.stdout[ran.stdout.index("@@") :]
    assert commentable_lines(patch) == {*range(2, 10), *range(38, 44), *range(57, 61)}
