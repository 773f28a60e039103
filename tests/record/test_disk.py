"""How often a run waits for the disk."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import BinaryIO

from holodeck_action.cli import main
from holodeck_action.record.disk import Disk
from tests.commands.project import Project


class CountingDisk(Disk):
    """Keeps the order in which files get their names, and how often each folder is waited for."""

    def __init__(self) -> None:
        self.named: list[str] = []
        self.folders: Counter[str] = Counter()
        self.synced = 0

    def rename(self, source: Path, target: Path) -> None:
        self.named.append(target.name)
        super().rename(source, target)

    def sync_folder(self, folder: Path) -> None:
        self.folders[folder.name] += 1
        super().sync_folder(folder)

    def sync(self, file: BinaryIO) -> None:
        self.synced += 1
        super().sync(file)


def ran(project: Project) -> CountingDisk:
    disk = CountingDisk()
    stdout, stderr = io.StringIO(), io.StringIO()
    code = main(["run", "-o", "out"], project.environ(), project.folder, io.StringIO(), stdout, stderr, disk=disk)
    assert code == 0, stderr.getvalue()
    return disk


def test_a_folder_is_waited_for_once_for_all_the_files_that_are_put_in_place_together(project: Project) -> None:
    project.numbered(1)
    first, again = ran(project), ran(project)
    names = [name for name in first.named if name != "run.journal"]
    # The verdict stands only where the results do.
    assert names[:2] == ["results.json", "verdict.json"]
    # Once for the journal, for record and verdict, and for the reports.
    assert first.folders["out"] == 3
    assert first.synced >= len(first.named)
    # All that stood there goes into one folder: the verdict first, and one wait.
    moved = again.named[: again.named.index("results.json", 1)]
    assert moved[0] == "verdict.json"
    assert again.folders["previous"] <= 1
