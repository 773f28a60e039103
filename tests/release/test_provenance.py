"""The statement of where a release comes from, read by in-toto's own package."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tests.release.distributions import Distributions

pytestmark = pytest.mark.release

COMMIT, DIGEST = "1" * 40, "a" * 64
IMAGE = f"ghcr.io/holodeck-action/holodeck-action@sha256:{DIGEST}"
JOB = {
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "holodeck-action/holodeck-action",
    "GITHUB_WORKFLOW_REF": "holodeck-action/holodeck-action/.github/workflows/release.yml@refs/heads/main",
    "GITHUB_REF": "refs/heads/main",
    "GITHUB_SHA": COMMIT,
    "GITHUB_RUN_ID": "4242",
    "GITHUB_RUN_ATTEMPT": "2",
    "GITHUB_EVENT_NAME": "workflow_dispatch",
}


def test_it_names_the_files_the_images_and_the_commit(distributions: Distributions) -> None:
    from google.protobuf.json_format import Parse, ParseDict
    from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
    from in_toto_attestation.v1 import statement_pb2
    from in_toto_attestation.v1.statement import Statement

    written = _provenance(distributions.wheel, distributions.source)
    statement = Statement.copy_from_pb(Parse(written, statement_pb2.Statement()))
    statement.validate()
    about = json.loads(written)
    assert about["_type"] == "https://in-toto.io/Statement/v1"
    assert {subject["name"]: subject["digest"]["sha256"] for subject in about["subject"]} == {
        IMAGE.partition("@")[0]: DIGEST,
        **{file.name: _sha256(file) for file in (distributions.wheel, distributions.source)},
    }
    assert about["predicateType"] == "https://slsa.dev/provenance/v1"
    # Fields that the predicate does not have are refused.
    predicate = ParseDict(about["predicate"], provenance_pb2.Provenance())
    assert predicate.build_definition.build_type == "https://actions.github.io/buildtypes/workflow/v1"
    definition: dict[str, Any] = about["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["workflow"]["path"] == ".github/workflows/release.yml"
    [source] = definition["resolvedDependencies"]
    assert source["digest"] == {"gitCommit": COMMIT}
    run = about["predicate"]["runDetails"]
    assert run["builder"]["id"] == f"https://github.com/{JOB['GITHUB_WORKFLOW_REF']}"
    assert run["metadata"]["invocationId"].endswith("/actions/runs/4242/attempts/2")


def _provenance(*files: Path) -> str:
    ended = subprocess.run(
        [sys.executable, "-I", ROOT / "scripts" / "provenance.py", "--image", IMAGE, *files],
        env={**os.environ, **JOB},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
