"""THIRD_PARTY.md is what uv.lock and the metadata of packages give; a licence that no one has read is refused."""

from __future__ import annotations

import gzip
import json
import re
from email import message_from_string

import pytest

from scripts.build_licences import ALLOWED, READ, LicenceError, document, licence_of, main, needed_packages
from tests.docs.pages import ROOT
from tests.image.lock import PROJECT, everything_installed, locked_packages
from tests.tables import walk

PAGE = (ROOT / "THIRD_PARTY.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| ([a-z0-9-]+) \| ([0-9][^|]*) \|", PAGE, re.MULTILINE))


@pytest.mark.full
def test_the_file_is_what_the_lock_gives() -> None:
    assert document() == PAGE, "run: make licences"
    assert main(["--check"]) == 0


@pytest.mark.full
def test_it_lists_all_that_is_installed() -> None:
    elsewhere = {"pywin32", "httpx2-jsfetch"}  # Windows, and Python in a browser
    assert set(ROWS) == everything_installed() - elsewhere - {PROJECT} == set(needed_packages())
    locked = locked_packages()
    for name, version in ROWS.items():
        assert locked[name]["version"] in version.split(", ")


def test_the_viewer_names_what_is_in_it_with_its_texts() -> None:
    banner = (ROOT / "templates" / "viewer.js").read_text(encoding="utf-8").partition("*/")[0]
    lock = json.loads((ROOT / "viewer" / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    bundled = [name.removeprefix("node_modules/") for name, each in lock.items() if name and not each.get("dev")]
    assert bundled
    for name in bundled:
        found = lock[f"node_modules/{name}"]
        assert f"{name} {found['version']}, {found['license']}" in PAGE
        assert f"--- {name} {found['version']}, {found['license']} ---" in banner
    assert banner.count("Copyright") >= len(bundled)


def test_the_image_has_the_licence_of_node() -> None:
    text = gzip.decompress((ROOT / "requirements" / "node-licence.gz").read_bytes()).decode()
    assert text.startswith("Node.js is licensed for use as follows")
    assert "V8" in text
    assert "OpenSSL" in text
    [target] = re.findall(r"^COPY requirements/node-licence.gz (\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert f"`{target}`" in PAGE


@walk(
    ("stated", "licence"),
    [
        ("License-Expression: apache-2.0 or mit", "Apache-2.0 OR MIT"),
        ("License: BSD-3-Clause", "BSD-3-Clause"),
        ("License: Apache License, Version 2.0", "Apache-2.0"),
        ("Classifier: License :: OSI Approved :: MIT License", "MIT"),
        ("License-Expression: GPL-3.0-only", "licence GPL-3.0-only, which is not in ALLOWED"),
        ("License-Expression: MIT OR SSPL-1.0", "licence MIT OR SSPL-1.0, which is not in ALLOWED"),
        ("License-Expression: LicenseRef-BSD", "licence LicenseRef-BSD, which is not in ALLOWED"),
        ("License: as you like", "states no licence that leaves no doubt"),
        ("Classifier: License :: OSI Approved :: BSD License", "states no licence that leaves no doubt"),
        ("Summary: nothing", "states no licence that leaves no doubt"),
    ],
)
def test_a_licence_is_known_and_allowed_or_refused(stated: str, licence: str) -> None:
    metadata = message_from_string(f"Metadata-Version: 2.4\nName: Some_Package\n{stated}\n")
    if "licence" in licence:
        with pytest.raises(LicenceError, match=re.escape(licence)):
            licence_of(metadata)
    else:
        assert licence_of(metadata) == licence


def test_what_was_read_by_hand_is_needed() -> None:
    metadata = message_from_string("Metadata-Version: 2.4\nName: some.package\nLicense: BSD\n")
    assert licence_of(metadata, {"some-package": "BSD-2-Clause"}) == "BSD-2-Clause"
    metadata["License-Expression"] = "BSD-2-Clause"
    with pytest.raises(LicenceError, match="remove its entry in READ"):
        licence_of(metadata, {"some-package": "BSD-2-Clause"})
    assert set(READ) <= set(ROWS)
    assert not {"GPL-2.0-only", "GPL-3.0-or-later", "AGPL-3.0-only"} & ALLOWED
