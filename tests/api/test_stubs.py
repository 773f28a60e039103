"""The stubs of HoloDeck's names are those that are served; `make lint` checks tests/api/typed_names.py with them."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from holodeck_action.compat import served_names
from scripts.build_stubs import FOLDER, stubs

pytestmark = pytest.mark.needs


def test_the_stubs_are_those_that_the_script_makes() -> None:
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    written = {path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8") for path in files}
    assert written == stubs(), "run make fields"


def test_every_served_module_has_a_stub_with_its_names() -> None:
    for module, names in served_names().items():
        if module.partition(".")[0] != "holodeck":
            continue
        path = Path(FOLDER, *module.split(".")[1:])
        file = path.with_suffix(".pyi") if path.with_suffix(".pyi").is_file() else path / "__init__.pyi"
        namespace: dict[str, object] = {}
        exec(file.read_text(encoding="utf-8"), namespace)
        loaded = importlib.import_module(module)
        assert {name: namespace[name] for name in names} == {name: getattr(loaded, name) for name in names}
