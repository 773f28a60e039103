"""Write where the files and images of a release come from: a statement of in-toto with a predicate of SLSA 1.0.

    python3 -m scripts.provenance --image ghcr.io/…@sha256:0123… dist/*.whl dist/*.tar.gz >provenance.intoto.json

Runs in a job of GitHub Actions, without installed packages. The fields are those of the build type of GitHub's
workflows (https://actions.github.io/buildtypes/workflow/v1). The file is not signed; the attestations of GitHub and of
the package index are.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "https://actions.github.io/buildtypes/workflow/v1"


def subjects(images: Sequence[str], files: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the subjects of a statement: images as `NAME@sha256:DIGEST`, and files by their name."""
    found = []
    for image in images:
        name, _, digest = image.partition("@sha256:")
        found.append({"name": name, "digest": {"sha256": digest}})
    for file in files:
        found.append({"name": file.name, "digest": {"sha256": hashlib.sha256(file.read_bytes()).hexdigest()}})
    return found


def provenance(images: Sequence[str], files: Sequence[Path], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the statement about what a job has built.

    Args:
        images: as `NAME@sha256:DIGEST`.
        files: whose name and content are stated.
        environ: the variables of the job.
    """
    repository = f"{environ['GITHUB_SERVER_URL']}/{environ['GITHUB_REPOSITORY']}"
    path = environ["GITHUB_WORKFLOW_REF"].partition("@")[0].removeprefix(f"{environ['GITHUB_REPOSITORY']}/")
    run = f"{repository}/actions/runs/{environ['GITHUB_RUN_ID']}/attempts/{environ['GITHUB_RUN_ATTEMPT']}"
    source = {
        "uri": f"git+{repository}@{environ['GITHUB_REF']}",
        "digest": {"gitCommit": environ["GITHUB_SHA"]},
    }
    definition = {
        "buildType": BUILD_TYPE,
        "externalParameters": {
            "workflow": {"ref": environ["GITHUB_REF"], "repository": repository, "path": path},
        },
        "internalParameters": {"github": {"event_name": environ["GITHUB_EVENT_NAME"]}},
        "resolvedDependencies": [source],
    }
    builder = {"id": f"{environ['GITHUB_SERVER_URL']}/{environ['GITHUB_WORKFLOW_REF']}"}
    return {
        "_type": STATEMENT,
        "subject": subjects(images, files),
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": definition,
            "runDetails": {"builder": builder, "metadata": {"invocationId": run}},
        },
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the statement."""
    parser = argparse.ArgumentParser(prog="python3 -m scripts.provenance")
    parser.add_argument("--image", action="append", default=[], metavar="NAME@sha256:DIGEST")
    parser.add_argument("files", nargs="+", type=Path)
    given = parser.parse_args(arguments)
    json.dump(provenance(given.image, given.files, os.environ), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
