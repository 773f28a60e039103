"""What `init` lets a person choose, with the proposals first."""

from __future__ import annotations

from collections.abc import Mapping

WORKFLOW = ".github/workflows/evaluate.yml"
PIPELINE = ".gitlab-ci.yml"
CI: Mapping[str, tuple[str, str]] = {"github": (WORKFLOW, "evaluate.yml"), "gitlab": (PIPELINE, "gitlab-ci.yml")}
"""CI services by name: the workflow file that the service reads, and the shipped file that it is copied from."""
CHECKS: Mapping[str, str] = {
    "contains": "the answer must contain a text that you give; needs no model",
    "f1_score": "the answer must share words with an expected one; needs no model",
    "judge": "a model grades the answer by a sentence that you write; needs a key and the extra judges",
}
"""Checks of answers by name, with what they do. The shipped suites mark the lines of each."""
