"""Images as OCI layouts: what their digest covers, checked blob by blob."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Entry = tuple[str, int, int, int, float, str]
"""Kind, mode, owner, group, time and content of a file of a layer."""


@dataclass(frozen=True)
class Layout:
    """A folder with one image, without a list of platforms."""

    folder: Path

    @property
    def digest(self) -> str:
        """The digest by which the image is pulled."""
        [only] = json.loads((self.folder / "index.json").read_text(encoding="utf-8"))["manifests"]
        return str(only["digest"])

    @property
    def manifest(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.blob(self.digest).read_bytes())
        return loaded

    @property
    def config(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.blob(self.manifest["config"]["digest"]).read_bytes())
        return loaded

    @property
    def layers(self) -> list[Path]:
        return [self.blob(layer["digest"]) for layer in self.manifest["layers"]]

    def blob(self, digest: str) -> Path:
        """Return the file of a digest, which its content must have."""
        file = self.folder / "blobs" / digest.replace(":", "/")
        with file.open("rb") as content:
            assert f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}" == digest
        return file


def differences(one: Layout, other: Layout) -> Iterator[str]:
    """Yield how two images differ: settings, layers, and files of layers."""
    if one.config != other.config:
        yield from (f"config {key}" for key in one.config if one.config[key] != other.config.get(key))
    if len(one.layers) != len(other.layers):
        yield f"{len(one.layers)} layers and {len(other.layers)}"
    for number, (left, right) in enumerate(zip(one.layers, other.layers, strict=False)):
        if left.name != right.name:
            yield f"layer {number}: {left.name[:12]} and {right.name[:12]}"
            first, second = dict(_entries(left)), dict(_entries(right))
            for name in sorted(first.keys() | second.keys()):
                if first.get(name) != second.get(name):
                    yield f"layer {number}: {name}: {first.get(name)} and {second.get(name)}"


def _entries(layer: Path) -> Iterator[tuple[str, Entry]]:
    with tarfile.open(layer) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isreg() else None
            digest = hashlib.sha256(content.read()).hexdigest() if content else member.linkname
            entry = (repr(member.type), member.mode, member.uid, member.gid, member.mtime, digest)
            yield member.name, entry
