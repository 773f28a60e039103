"""Documents as text: every kind, what is no document, and what would take for ever or all memory."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.suite.checkout import Checkout
from holodeck_action.targets.documents.excel import convert_excel
from holodeck_action.targets.documents.reader import DocumentError, DocumentReader
from tests.targets.documents.made import endless_pdf, excel, pdf, powerpoint, swelling_pdf, word, zip_bomb

ANYWHERE = Checkout.unbounded(Path())
PAGES = ["First page", "Second page", "Third page"]
LATE = "! the PDF file was not read within 1 s; raise execution.file_timeout, or give a smaller one"
SHEETS: dict[str, list[list[Any]]] = {
    "Q1": [["name", "sum", None], ["a|b", 1.0, None], [None, None, None], ["two\nlines", 2.5, True]],
    "Q2": [[None], [None, 7]],
}


def reading(work: Callable[[DocumentReader], Coroutine[Any, Any, Any]], timeout_s: float = 600.0) -> Any:
    """What comes of work with a reader that is closed behind it."""

    async def run() -> Any:
        reader = DocumentReader(timeout_s=timeout_s, environ=os.environ, redact=str)
        try:
            return await work(reader)
        finally:
            await reader.close()

    return asyncio.run(run())


async def attempt(reader: DocumentReader, path: Path, **options: Any) -> str:
    """The text, or what is said instead."""
    try:
        return await reader.text(path, ANYWHERE, **options)
    except DocumentError as error:
        return f"! {error.message}"


def results(folder: Path, files: dict[str, bytes], asked: list[tuple[str, dict[str, Any]]]) -> list[str]:
    for name, content in files.items():
        (folder / name).write_bytes(content)

    async def work(reader: DocumentReader) -> list[str]:
        return [await attempt(reader, folder / name, **options) for name, options in asked]

    found: list[str] = reading(work)
    return found


def test_tables_are_as_wide_as_their_widest_rows(tmp_path: Path) -> None:
    file = tmp_path / "a.xlsx"
    file.write_bytes(excel({"One": [["a"], [None, "b", None]], "Two": [["c"]]}))
    assert convert_excel(str(file), None, None, None) == (
        "## One\n\n| a |  |\n| --- | --- |\n|  | b |\n\n## Two\n\n| c |\n| --- |"
    )


@pytest.mark.full
def test_documents_of_every_kind(tmp_path: Path) -> None:
    files = {
        "a.pdf": pdf(PAGES),
        "a.xlsx": excel({"Q1": SHEETS["Q1"]}),
        "a.docx": word("Terms", "Thirty days"),
        "a.pptx": powerpoint([("One", "alpha"), ("Two", "beta")]),
        "a.html": "<h1>Prices</h1><p>10 €</p><script>alert(1)</script>".encode(),
        "a.csv": b"\xef\xbb\xbfid,sum\n1,\xc3\xa9\n",
        "a.md": b"",
        "a.PDF": pdf(["Capital letters"]),
    }
    assert results(tmp_path, files, [(name, {}) for name in files]) == [
        "First page\n\nSecond page\n\nThird page",
        "| name | sum |  |\n| --- | --- | --- |\n| a\\|b | 1 |  |\n| two lines | 2.5 | TRUE |",
        "# Terms\n\nThirty days",
        "<!-- Slide number: 1 -->\n# One\nalpha\n\n<!-- Slide number: 2 -->\n# Two\nbeta",
        "# Prices\n\n10 €",
        "id,sum\n1,é\n",
        "",
        "Capital letters",
    ]


@pytest.mark.full
def test_parts_of_documents(tmp_path: Path) -> None:
    files = {"a.pdf": pdf(PAGES), "a.xlsx": excel(SHEETS)}
    asked: list[tuple[str, dict[str, Any]]] = [
        ("a.pdf", {"pages": [1]}),
        ("a.pdf", {"pages": [3, 2]}),
        ("a.pdf", {"pages": [1, 4]}),
        ("a.xlsx", {}),
        ("a.xlsx", {"sheet": "Q2"}),
        ("a.xlsx", {"sheet": "Q1", "cells": "B1:B2"}),
        ("a.xlsx", {"cells": "$a$4"}),
        ("a.xlsx", {"sheet": "Q1", "cells": "A:A"}),
        ("a.xlsx", {"sheet": "Q1", "cells": "1:2"}),
        ("a.xlsx", {"sheet": "Q3"}),
        ("a.xlsx", {"cells": "foo"}),
        ("a.xlsx", {"cells": "C3:A1"}),
        ("a.xlsx", {"sheet": "Q1", "cells": "A50:C60"}),
    ]
    assert results(tmp_path, files, asked) == [
        "First page",
        "Third page\n\nSecond page",
        "! there is no page 4: it has 3 pages",
        "## Q1\n\n| name | sum |  |\n| --- | --- | --- |\n| a\\|b | 1 |  |\n| two lines | 2.5 | TRUE |\n\n"
        "## Q2\n\n|  | 7 |\n| --- | --- |",
        "|  | 7 |\n| --- | --- |",
        "| sum |\n| --- |\n| 1 |",
        "| two lines |\n| --- |",
        "| name |\n| --- |\n| a\\|b |\n| two lines |",
        "| name | sum |\n| --- | --- |\n| a\\|b | 1 |",
        "! there is no sheet 'Q3' (it has: Q1, Q2)",
        "! 'foo' is not a range of cells; give one such as A1:C10",
        "! C3:A1 has no cell with a value",
        "! A50:C60 has no cell with a value",
    ]


@pytest.mark.full
def test_what_cannot_be_read(tmp_path: Path) -> None:
    import openpyxl

    formula = openpyxl.Workbook()
    formula.worksheets[0]["B2"] = "=1+1"
    formula.save(tmp_path / "formula.xlsx")
    (tmp_path / "folder.txt").mkdir()
    files = {
        "text.pdf": b"no PDF",
        "cut.pdf": pdf(PAGES)[:200],
        "scan.pdf": pdf([b""]),
        "text.docx": b"no Word",
        "old.xls": bytes.fromhex("d0cf11e0a1b11ae1") + bytes(512),
        "word.pptx": word("a", "b"),
        "latin.txt": b"caf\xe9",
        "latin.html": b"caf\xe9",
        "bomb.xlsx": zip_bomb(300),
    }
    assert len(files["bomb.xlsx"]) < 2_000_000
    names = [*files, "formula.xlsx", "folder.txt", "absent.txt"]
    found = dict(zip(names, results(tmp_path, files, [(name, {}) for name in names]), strict=True))
    assert found.pop("cut.pdf").startswith("! the file cannot be read as a PDF file: ")
    assert found.pop("word.pptx").startswith("! the file cannot be read as a PowerPoint file (.pptx): ")
    assert found == {
        "text.pdf": "! the file is not a PDF file",
        "scan.pdf": "! the file contains no text (a scan?); give a PDF with text, or an image",
        "text.docx": "! the file is not a valid Word file (.docx): File is not a zip file",
        "old.xls": "! the file is encrypted or has the format of Office 97; "
        "save it as an unencrypted Excel file (.xlsx)",
        "latin.txt": "! the file is not UTF-8 text (unexpected end of data at byte 3); save it as UTF-8",
        "latin.html": "! the file is not UTF-8 text (unexpected end of data at byte 3); save it as UTF-8",
        "bomb.xlsx": "! the file unpacks to 300 MiB, more than 256 MiB; give a smaller one",
        "formula.xlsx": "! the formula in B2 has no stored value; save the file in a spreadsheet program",
        "folder.txt": "! the path is not a regular file",
        "absent.txt": "! the file cannot be read: No such file or directory",
    }


@pytest.mark.full
def test_a_type_that_is_told_wins_over_the_name(tmp_path: Path) -> None:
    files = {"a.bin": pdf(PAGES), "b.pdf": b"plain"}
    asked: list[tuple[str, dict[str, Any]]] = [("a.bin", {"kind": "pdf"}), ("b.pdf", {"kind": "text"})]
    assert results(tmp_path, files, asked) == ["First page\n\nSecond page\n\nThird page", "plain"]


@pytest.mark.full
def test_a_document_that_takes_too_long_is_ended_and_the_next_one_read(tmp_path: Path) -> None:
    (tmp_path / "slow.pdf").write_bytes(endless_pdf())
    (tmp_path / "good.pdf").write_bytes(pdf(PAGES))

    async def work(reader: DocumentReader) -> tuple[str, str, list[int]]:
        slow = await attempt(reader, tmp_path / "slow.pdf")
        left = workers()
        # A slow machine may need more time for a good one, too.
        while (good := await attempt(reader, tmp_path / "good.pdf", pages=[2])) == LATE:
            pass
        return slow, good, left

    slow, good, left = reading(work, timeout_s=1.0)
    assert slow == LATE
    assert (good, left, workers()) == ("Second page", [], [])


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_document_that_takes_all_memory_is_ended(tmp_path: Path) -> None:
    content = swelling_pdf(1500)
    assert len(content) < 3_000_000
    (found,) = results(tmp_path, {"big.pdf": content}, [("big.pdf", {})])
    assert found == "! reading the PDF file needs more memory than the limit; give a smaller one"


@pytest.mark.full
def test_a_process_that_is_killed_is_told_and_replaced(tmp_path: Path) -> None:
    (tmp_path / "slow.pdf").write_bytes(endless_pdf())
    (tmp_path / "good.pdf").write_bytes(pdf(PAGES))

    async def work(reader: DocumentReader) -> tuple[str, str]:
        slow = asyncio.create_task(attempt(reader, tmp_path / "slow.pdf"))
        await started()
        for worker in workers():
            os.kill(worker, signal.SIGKILL)
        return await slow, await attempt(reader, tmp_path / "good.pdf", pages=[1])

    slow, good = reading(work)
    assert slow == "! the PDF file cannot be read: its process was killed by SIGKILL (memory may have run out)"
    assert good == "First page"


@pytest.mark.full
def test_a_document_is_converted_once_and_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf(PAGES))

    async def work(reader: DocumentReader) -> list[str]:
        texts = [await reader.text(path, ANYWHERE)]
        # Equal size and time hide that the file has changed: whoever reads it again gets another text.
        before = path.stat()
        path.write_bytes(pdf([*PAGES[:2], "Other page"]))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert path.stat().st_size == before.st_size
        texts.append(await reader.text(path, ANYWHERE))
        path.write_bytes(pdf(["Another page, and a longer one"]))
        return [*texts, await reader.text(path, ANYWHERE)]

    whole = "First page\n\nSecond page\n\nThird page"
    assert reading(work) == [whole, whole, "Another page, and a longer one"]


@pytest.mark.full
def test_whoever_gives_up_waiting_does_not_end_it_for_the_others(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf(PAGES))

    async def work(reader: DocumentReader) -> str:
        first = asyncio.create_task(reader.text(path, ANYWHERE))
        second = asyncio.create_task(reader.text(path, ANYWHERE))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert reading(work).startswith("First page")


def test_closing_ends_a_conversion_under_way(tmp_path: Path) -> None:
    (tmp_path / "slow.pdf").write_bytes(endless_pdf())

    async def work(reader: DocumentReader) -> str:
        slow = asyncio.create_task(attempt(reader, tmp_path / "slow.pdf"))
        await started()
        await reader.close()
        return await slow

    assert "the run ended" in reading(work)
    assert workers() == []


@pytest.mark.full
def test_modules_of_the_current_folder_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("markitdown", "openpyxl", "pypdfium2", "zipfile", "json"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the checkout')")
    monkeypatch.chdir(tmp_path)
    files = {"a.pdf": pdf(PAGES), "a.xlsx": excel(SHEETS)}
    found = results(tmp_path, files, [("a.pdf", {"pages": [1]}), ("a.xlsx", {"sheet": "Q2"})])
    assert found == ["First page", "|  | 7 |\n| --- | --- |"]


async def started() -> None:
    """Wait for a process to start."""
    while not workers():  # noqa: ASYNC110 - no event tells of it
        await asyncio.sleep(0.01)


def workers() -> list[int]:
    """Processes of this one in which documents are converted."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        if b"workers.limited_workers" in command and parent == os.getpid():
            found.append(int(entry.name))
    return found
