"""Only listed modules open files, archives, sockets and programs: the rule, its exceptions and the product."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
EXCEPTIONS = re.compile(r'^"(?:holodeck_action|runner)/.*TID251.*\n', re.MULTILINE)

FORBIDDEN = [
    'open("x")',
    'list(map(open, ["x"]))',
    "path.open()",
    'path.open("rb")',
    'path.open(mode="w")',
    'path.open("r+b" if path.name else "wb", buffering=0)',
    "path.read_text()",
    "path.read_bytes()",
    'path.write_text("")',
    'path.write_bytes(b"")',
    "read = path.read_text",
    "import os; os.open(path, 0)",
    "from os import fdopen",
    "import io; io.open(path)",
    "import codecs; codecs.open(path)",
    "from pathlib import Path; Path.read_bytes(path)",
    "import tempfile; tempfile.mkstemp()",
    "import shutil; shutil.copyfile(path, path)",
    "import zipfile",
    "from tarfile import TarFile",
    "import gzip",
    "from lzma import LZMAFile",
    "import bz2",
    'import zlib; zlib.decompress(b"")',
    "from zlib import decompressobj",
    "import socket; socket.socket()",
    'import socket; socket.create_connection(("127.0.0.1", 1))',
    "import asyncio; asyncio.open_connection(path, 1)",
    "import asyncio; asyncio.start_server(path, path)",
    "loop.create_connection(path)",
    "await loop.create_server(path)",
    "import http.client",
    "import urllib.request",
    "import httpx2; httpx2.AsyncClient()",
    "from httpx2 import Client",
    "import httpcore2",
    "import subprocess; subprocess.run([path])",
    "from subprocess import Popen",
    "import asyncio; asyncio.create_subprocess_exec(path)",
    "loop.subprocess_exec(path)",
    "import os; os.system(path)",
    "import os; os.posix_spawn(path, [], {})",
    "import ctypes",
    "import multiprocessing",
    "import pickle",
    "import json; json.loads(path)",
    "from json import load",
    "pass\nimport re\nclass Words:\n    PATTERN = re.compile('x')",
    "pass\nfrom holodeck_action.text.lazy_patterns import lazy_pattern\nsearch = lazy_pattern('x').search",
]
ALLOWED = [
    "checkout.open(path, 1)",
    "await agent.open()",
    "await agent.open(case, 0)",
    "import subprocess; pipe = subprocess.PIPE",
    "import socket; end = socket.SHUT_WR",
    "import httpx2; failed = httpx2.ConnectError",
    "import zlib; zlib.crc32(path)",
    "import json; json.dumps(path)",
    "import re; re.compile(path)",
    "pass\nfrom holodeck_action.text.lazy_patterns import lazy_pattern\nPATTERN = lazy_pattern('x')",
]


def lint(folder: Path, code: str, exceptions: str = "") -> tuple[int, list[str]]:
    """Check a repository with one module, under the rules of this one and other exceptions."""
    return lint_all(folder, {"planted": code}, exceptions)


def lint_all(folder: Path, codes: dict[str, str], exceptions: str = "") -> tuple[int, list[str]]:
    """Check a repository with several modules; `codes` are the bodies of their functions by name."""
    package = folder / "holodeck_action"
    package.mkdir(exist_ok=True)
    (folder / "runner").mkdir(exist_ok=True)
    for name, code in codes.items():
        text = f"async def planted(path, loop, checkout, agent, case):\n    {code}\n"
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    (folder / "pyproject.toml").write_text(_settings(exceptions), encoding="utf-8")
    command = [sys.executable, "-m", "scripts.check_doors", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.returncode, done.stdout.splitlines()


def _settings(exceptions: str) -> str:
    heading = "[tool.ruff.lint.per-file-ignores]\n"
    return EXCEPTIONS.sub("", SETTINGS).replace(heading, f"{heading}{exceptions}\n")


@pytest.mark.full
def test_the_product_opens_nothing_elsewhere() -> None:
    done = subprocess.run([sys.executable, "-m", "scripts.check_doors"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_lint_runs_it() -> None:
    assert "-m scripts.check_doors\n" in (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nlint:")[2]


def test_forbidden(tmp_path: Path) -> None:
    codes = {f"planted_{number}": code for number, code in enumerate(FORBIDDEN)}
    status, lines = lint_all(tmp_path, codes)
    assert status == 1
    # The line says what to use instead.
    found = [
        re.match(r"holodeck_action/(\w+)\.py:\d: `.+`(?: of a path| is banned| at import)?: \S.+$", line)
        for line in lines
    ]
    named = {line[1] for line in found if line}
    assert [code for name, code in codes.items() if name not in named] == []


def test_allowed(tmp_path: Path) -> None:
    assert lint_all(tmp_path, {f"planted_{number}": code for number, code in enumerate(ALLOWED)}) == (0, [])


def test_no_comment_in_the_code_allows_it(tmp_path: Path) -> None:
    status, lines = lint(tmp_path, "import zipfile  # noqa: TID251")
    assert (status, len(lines)) == (1, 1)


def test_an_exception_with_a_reason_allows_it(tmp_path: Path) -> None:
    exception = '"holodeck_action/planted.py" = ["TID251"] # reads what was planted'
    assert lint(tmp_path, "import zipfile", exception) == (0, [])
    assert lint(tmp_path, 'open("x")', exception) == (0, [])


def test_an_exception_needs_a_reason(tmp_path: Path) -> None:
    status, (line,) = lint(tmp_path, 'open("x")', '"holodeck_action/planted.py" = ["TID251"]')
    assert (status, line) == (1, 'pyproject.toml: the exception "holodeck_action/planted.py" needs a reason after `#`')


def test_an_exception_that_is_not_needed_goes(tmp_path: Path) -> None:
    status, (line,) = lint(tmp_path, "pass", '"holodeck_action/planted.py" = ["TID251"] # reads what was planted')
    assert (status, line) == (
        1,
        'pyproject.toml: the exception "holodeck_action/planted.py" is not needed any more: remove it',
    )


def test_an_exception_together_with_other_rules_does_not_count(tmp_path: Path) -> None:
    status, lines = lint(tmp_path, 'open("x")', '"holodeck_action/planted.py" = ["S", "TID251"] # a reason')
    assert (status, len(lines)) == (1, 1)
