"""Whatever is in an imported file, an import ends with 0, 1 or 2, in time, and reads nothing that it may not."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.commands.project import Project
from tests.extensions.importers import mutations


@pytest.mark.full
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
@example(seed=1057)
@example(seed=1267)
def test_a_changed_file_is_imported_or_refused(seed: int) -> None:
    rng = random.Random(seed)
    program = rng.choice(("promptfoo", "promptfoo", "promptfoo", "deepeval"))
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder, "project"))
        project.folder.mkdir()
        name = getattr(mutations, program)(project.folder, rng)
        mutations.hidden_files(project.folder)
        finished = project.run("import", program, name, "-o", "new", "--report", "new/account.json")
        assert finished.code in (0, 1, 2), finished.stderr
        assert (finished.code == 2) is not (project.folder / "new").exists()
        files = [path for path in (project.folder / "new").rglob("*") if path.is_file()]
        texts = [finished.stdout, finished.stderr, *(path.read_text(encoding="utf-8") for path in files)]
        assert not any(mutations.CANARY in text for text in texts)
