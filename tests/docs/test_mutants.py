"""What `scripts/mutants` reports of a package with tested and untested code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts.mutants.__main__ import main

FILES = {
    "shop/__init__.py": "",
    "shop/till/__init__.py": "",
    "shop/till/prices.py": '''
        """Prices."""

        from __future__ import annotations


        def is_small(count):
            return count < 3


        def is_dear(price):
            """Whether a price is high."""
            return price > 100


        def unused(price):
            return price == 1
        ''',
    "shop/extensions/gifts.py": "def is_gift(price):\n    return price == 0\n",
    "checks/test_prices.py": """
        from pathlib import Path

        from shop.till import prices


        def test_small():
            assert prices.is_small(2)
            assert not prices.is_small(3)


        def test_dear():
            prices.is_dear(100)


        def test_that_never_passes():
            prices.is_dear(100)
            assert False
        """,
    # DeepEval's plugin takes seconds, and our package is not there.
    "pyproject.toml": """
        [tool.pytest.ini_options]
        addopts = "-m 'not full' -p no:asyncio -p no:deepeval -p no:holodeck-action"
        """,
}


@pytest.mark.full
def test_only_what_a_test_checks_is_found(tmp_path: Path) -> None:
    """A failing test finds nothing, code of an extension is not changed, and nothing is left in the checkout."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        lines = [line.removeprefix(" " * 8) for line in text.strip("\n").splitlines()]
        (tmp_path / name).write_text("\n".join([*lines, ""]))
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    before = sorted(tmp_path.rglob("[!.]*.*"))

    arguments = ["--seed", "1", "--count", "99", "--processes", "1", "--root", str(tmp_path), "--package", "shop"]
    finished = CliRunner().invoke(main, [*arguments, "checks"], catch_exceptions=False)

    assert finished.exit_code == 0, finished.output
    total, _, table = finished.output.partition("\n\n")
    assert total == "1 of 3 changes were found (33.3%), 1 never executed, 1 not found"
    assert table.startswith("room         places  found\ntill              3      1\n")
    missed = table.partition("never executed:\n")[2].splitlines()
    assert "shop/till/prices.py:16 unused: " in missed[0]
    assert missed[2] == "not found:"
    assert "shop/till/prices.py:12 is_dear: " in missed[3]
    assert sorted(tmp_path.rglob("[!.]*.*")) == before
