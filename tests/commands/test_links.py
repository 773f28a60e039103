"""Links that a pull request commits: nothing is written, moved or deleted where they lead."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.commands.project import Finished, Project
from tests.tables import walk

LEADS_OUT = "a link leads to {}"
WRITING = [
    ("run", "-o", "linked"),
    ("run", "-o", "linked/below"),
    ("run", "-o", "own/../linked"),
    ("run", "--target", "nonsense:", "-o", "linked"),
    ("decide", "out", "-o", "linked"),
    ("rejudge", "out", "-o", "linked"),
    ("merge", "shard-1", "shard-2", "-o", "linked"),
    ("report", "out", "--format", "html", "-o", "linked/report.html"),
]


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A checkout beside other folders."""
    (tmp_path / "checkout").mkdir()
    return Project(tmp_path / "checkout")


@pytest.fixture
def victim(tmp_path: Path, project: Project) -> Path:
    """A folder outside of the checkout, with results of somebody else, and links of the checkout to it."""
    project.numbered(2)
    for name, part in (("out", "1/1"), ("shard-1", "1/2"), ("shard-2", "2/2")):
        assert project.run("run", "-o", name, "--shard", part).code in (0, 2)
    assert project.run("run", "-o", "out").code == 0
    folder = tmp_path / "victim"
    (project.folder / "out").rename(folder)
    assert project.run("run", "-o", "out").code == 0
    project.folder.joinpath("own").mkdir()
    project.folder.joinpath("linked").symlink_to(folder)
    return folder


@walk("arguments", WRITING)
def test_our_own_writing_follows_no_link_out_of_the_checkout(
    victim: Path, project: Project, arguments: tuple[str, ...]
) -> None:
    before = content(victim)
    finished = project.run(*arguments)
    assert (finished.code, content(victim)) == (2, before), finished.stderr
    assert LEADS_OUT.format(victim) in finished.stderr


@walk(("link", "sentence"), [(".holodeck", "is outside the checkout"), (".holodeck/last", LEADS_OUT)])
def test_the_default_folders_follow_none_either(victim: Path, project: Project, link: str, sentence: str) -> None:
    before = content(victim)
    place = project.folder / link
    for old in (project.folder / ".holodeck/last", project.folder / ".holodeck"):
        if old.is_symlink():
            old.unlink()
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(victim)
    finished = project.run("run")
    assert sentence.format(victim) in finished.stderr, finished.stderr
    assert content(victim) == before


def test_a_link_within_the_checkout_and_a_folder_outside_of_it_may_be_used(victim: Path, project: Project) -> None:
    project.folder.joinpath("here").symlink_to("own")
    for folder in ("here", str(victim)):
        assert project.run("run", "-o", folder).code == 0
    assert project.folder.joinpath("own/verdict.json").is_file()
    (project.folder / ".git").mkdir()
    project.folder.joinpath("git").symlink_to(".git")
    assert project.run("run", "-o", "git").code == 2
    assert not content(project.folder / ".git")


def told(finished: Finished) -> str:
    assert finished.code == 2, finished.stderr
    assert "defect" not in finished.stderr
    return finished.stderr


def test_a_link_to_itself_is_one_sentence(project: Project) -> None:
    project.numbered(2)
    for part in ("1", "2"):
        project.run("run", "-o", f"shard-{part}", "--shard", f"{part}/2")
    project.folder.joinpath("loop").symlink_to("loop")
    project.folder.joinpath("results.json").symlink_to("results.json")
    shards = ("merge", "shard-1", "shard-2")
    assert "loop" in told(project.run(*shards, "-o", "loop"))
    assert "loop" in told(project.run("merge", "loop", "-o", "merged"))
    assert "results.json" in told(project.run(*shards, "results.json", "-o", "merged"))


@pytest.mark.parametrize("arguments", [("decide", "changed"), ("report", "changed"), ("merge", "changed", "-o", "new")])
def test_a_record_with_a_flipped_bit_is_no_defect(project: Project, arguments: tuple[str, ...]) -> None:
    project.numbered(1)
    assert project.run("run", "-o", "out").code == 0
    written = (project.folder / "out/results.json").read_bytes()
    chance = random.Random(50)
    for _ in range(40):
        changed = bytearray(written)
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(6, 8)
        project.write("changed/results.json", bytes(changed))
        finished = project.run(*arguments)
        assert finished.code in (0, 1, 2), finished.stderr
        assert "defect" not in finished.stderr
