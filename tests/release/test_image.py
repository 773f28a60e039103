"""The images, built twice to the same digest, pushed to a registry, and pulled by the digest; and what is in them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from holodeck_action import __version__
from tests.docs.pages import ROOT
from tests.release.distributions import EPOCH, Distributions
from tests.release.layouts import Layout, differences
from tests.release.machine import not_tried
from tests.release.registry import Registry, serve_images, skopeo

pytestmark = [pytest.mark.release, pytest.mark.timeout(3600), pytest.mark.xdist_group("image")]

KINDS = ("complete", "slim")
NAME = "holodeck-action/holodeck-action"
SHOWN = 40
_CANNOT = 77


def _write_layouts(tree: Path, folder: Path) -> None:
    """Build both images from nothing but the tree, downloads and the base."""
    built = subprocess.run(
        [tree / "scripts" / "build_image.sh", "--layout", folder],
        env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode == _CANNOT:
        not_tried(f"THE IMAGE: {built.stderr.strip()}")
    assert built.returncode == 0, built.stderr


@pytest.fixture(scope="module")
def built(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Both images, as layouts."""
    folder = tmp_path_factory.mktemp("first")
    _write_layouts(tree, folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with serve_images(tmp_path / "registry") as registry:
        yield registry


def test_another_build_has_the_same_digest(tree: Path, built: Path, tmp_path: Path) -> None:
    _write_layouts(tree, tmp_path)
    for kind in KINDS:
        one, other = Layout(built / kind), Layout(tmp_path / kind)
        assert one.config["created"] == "2026-01-01T00:00:00Z"
        assert one.digest == other.digest, "\n".join(islice(differences(one, other), SHOWN))


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_pulled_from_a_registry_as_it_was_pushed(
    built: Path, tmp_path: Path, registry: Registry, kind: str
) -> None:
    layout = Layout(built / kind)
    assert registry.push(built / kind, f"{NAME}:{kind}") == layout.digest
    pulled = Layout(tmp_path / "pulled")
    registry.pull(NAME, layout.digest, pulled.folder)
    assert pulled.digest == layout.digest
    # Each blob is read, and has its digest.
    assert pulled.config == layout.config
    assert list(differences(layout, pulled)) == []
    assert [file.name for file in pulled.layers] == [file.name for file in layout.layers]


@pytest.mark.parametrize("kind", KINDS)
def test_the_bill_of_materials_lists_what_is_inside(
    built: Path, tmp_path: Path, distributions: Distributions, kind: str
) -> None:
    """Unpacked, the image runs, and prints its inventory; the list is checked by the schema of CycloneDX."""
    layout = Layout(built / kind)
    inventory = _run_inside(built / kind, tmp_path, (ROOT / "scripts" / "image_inventory.py").read_text("utf-8"))
    bills = [_bill_of_materials(inventory, layout.digest) for _ in range(2)]
    assert bills[0] == bills[1]
    bill = json.loads(bills[0])
    assert bill["metadata"]["component"]["hashes"] == [
        {"alg": "SHA-256", "content": layout.digest.removeprefix("sha256:")}
    ]
    found = {component["name"]: component["version"] for component in bill["components"]}
    assert found["holodeck-action"] == __version__
    assert {"debian", "git", "cpython", "uv", "pydantic"} <= found.keys()
    assert ({"node", "npm", "deepeval"} <= found.keys()) is (kind == "complete")
    # Of a library that another one needs: the list says so with its licence.
    [pydantic] = [component for component in bill["components"] if component["name"] == "pydantic"]
    assert pydantic["licenses"] == [{"license": {"id": "MIT"}}]
    assert pydantic["purl"] == f"pkg:pypi/pydantic@{found['pydantic']}"


def _run_inside(layout: Path, tmp_path: Path, program: str) -> str:
    """Run a program of Python in the unpacked image, without network; return what it prints."""
    engine = shutil.which("docker")
    own = Path(os.environ.get("TMPDIR", "/tmp")) / "holodeck-action-image" / "engine"
    tag = f"localhost/holodeck-action-rehearsed:{layout.name}"
    if own.exists():
        engine = str(own)
    assert engine is not None
    archive = tmp_path / "image.tar"
    skopeo("copy", f"oci:{layout}", f"docker-archive:{archive}:{tag}")
    try:
        subprocess.run([engine, "load", "--input", archive], capture_output=True, check=True)
        command = (engine, "run", "--rm", "--network=none", "--entrypoint=/opt/holodeck-action/bin/python", tag)
        ended = subprocess.run([*command, "-Ic", program], capture_output=True, text=True, timeout=300, check=False)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout
    finally:
        archive.unlink()
        subprocess.run([engine, "rmi", "--force", tag], capture_output=True, check=False)


def _bill_of_materials(inventory: str, digest: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "scripts.bill_of_materials", "holodeck-action", digest],
        cwd=ROOT,
        env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH},
        input=inventory,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout
