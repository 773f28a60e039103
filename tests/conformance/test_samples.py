"""Each sample of the documents is a piece of its document, and happens as docs/conformance shows."""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING

import pytest

from scripts.build_conformance import SAMPLES, Sample, documents, samples
from tests.commands.project import Project
from tests.llm.models import serve_models
from tests.tables import walk

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.needs()
DOCUMENTS = SAMPLES.parent / "documents"
ALL = samples()
COUNTS = {
    "gllm-evals-evaluators": 2,
    "holodeck-deepeval-data-model": 2,
    "holodeck-evaluation-api": 31,
    "holodeck-evaluations-guide": 13,
    "honeyhive-evaluation-data-models": 3,
}


def squeezed(text: str) -> str:
    """A text without white space, which the documents have lost, and without marks of continued lines."""
    return re.sub(r"\s|\.\.\.", "", text)


@walk("file", sorted(DOCUMENTS.glob("*.txt")))
def test_samples_are_pieces_of_their_document_in_order(file: Path) -> None:
    content = file.read_bytes()
    assert hashlib.sha256(content).hexdigest() == documents()[file.stem].sha256
    place, document = 0, squeezed(content.decode())
    for sample in ALL:
        if sample.document == file.stem:
            place = document.index(squeezed(sample.code), place) + 1


def test_no_sample_is_left_out() -> None:
    assert {name: sum(sample.document == name for sample in ALL) for name in documents()} == COUNTS
    examples = (DOCUMENTS / "holodeck-evaluation-api.txt").read_text(encoding="utf-8").count("\nExample\n")
    usages = {"NLP Metrics Usage", "Azure AI Usage", "G-Eval Usage", "RAG Metrics Usage"}
    api = [sample for sample in ALL if sample.document == "holodeck-evaluation-api"]
    assert sum(sample.language == "python" and sample.heading not in usages for sample in api) == examples


@pytest.mark.full
@pytest.mark.parametrize("sample", ALL, ids=lambda sample: f"{sample.document}-{sample.heading}")
def test_a_sample_happens_as_shown(sample: Sample, project: Project) -> None:
    # Imported late: what it imports is deleted where the core is tested alone.
    from tests.conformance.samples import Site, reply, run

    with serve_models(answer=reply, keys=None) as models:
        happened, _ = run(sample, Site(project, models, documents()[sample.document].modules))
    if "UPDATE_GOLDEN" in os.environ:
        update(sample, happened)
    else:
        assert happened == sample.happened


def update(sample: Sample, happened: str) -> None:
    file = SAMPLES / f"{sample.document}.md"
    code = f"```{sample.language}\n{sample.code}\n```\n"
    before, _, after = file.read_text(encoding="utf-8").partition(code)
    after = re.sub(r"\A\n```text\n.*?\n```\n", "", after, flags=re.DOTALL)
    file.write_text(f"{before}{code}\n```text\n{happened}\n```\n{after}", encoding="utf-8")
