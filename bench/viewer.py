"""Measures the size, writing, opening and filtering of large viewer's pages: `python -m bench.viewer`.

Each case has one turn, three metrics, and an answer of 60 random words out of 4,000, so that little can be compressed.
Needs what `make browser-test` installs. Headless Chromium opens the page from its file.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from random import Random

from msgspec.structs import replace

from bench.processes import PROGRAM, cheapest_run
from bench.records import random_record
from holodeck_action.decide.decision import decide
from holodeck_action.decide.written_results import write_results
from holodeck_action.record.record import CaseRecord, Record
from holodeck_action.record.result_files import RESULTS_FILE
from scripts.render_comment_picture import BROWSER_OPTIONS, find_browser

SIZES = (1_000, 10_000, 100_000)
_TIMES = 5
_QUERIES = ("rule 77", "nothing says this", "case 5 order")
_TYPED = """async query => {
    const field = document.querySelector('input[type=search]');
    const start = performance.now();
    field.value = query;
    field.dispatchEvent(new Event('input', {bubbles: true}));
    await new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve)));
    return performance.now() - start;
}"""
_CHOSEN = """async () => {
    const start = performance.now();
    document.querySelector('.chip').click();
    await new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve)));
    return performance.now() - start;
}"""


def main() -> None:
    print("The viewer's page (1 turn, 3 metrics, an answer of 60 random words a case):")
    print(
        f"{'cases':>7}  {'MB':>6}  {'of results.json':>15}  {'CPU s':>6}  {'open s':>7}  {'answers read s':>14}"
        f"  {'search ms':>9}  {'filter ms':>9}"
    )
    for size in SIZES:
        with tempfile.TemporaryDirectory() as root:
            record = _with_varied_answers(random_record(size))
            write_results(Path(root), record, decide(record))
            del record
            command = (*PROGRAM, "report", RESULTS_FILE, "--format", "html", "-o", "page.html")
            cost = cheapest_run(command, Path(root), 1)
            page = Path(root, "page.html")
            share = page.stat().st_size / Path(root, RESULTS_FILE).stat().st_size
            opened, read, searched, filtered = _measure_page(page)
            print(
                f"{size:>7,}  {page.stat().st_size / 1e6:>6.1f}  {share:>15.0%}  {cost.cpu_s:>6.1f}  {opened:>7.2f}"
                f"  {read:>14.1f}  {searched:>9.0f}  {filtered:>9.0f}"
            )


def _with_varied_answers(record: Record) -> Record:
    random = Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(random.choices(letters, k=random.randint(2, 10))) for _ in range(4_000)]

    def with_answer(case: CaseRecord) -> CaseRecord:
        trials = tuple(
            replace(
                trial,
                turns=tuple(replace(turn, response=" ".join(random.choices(words, k=60))) for turn in trial.turns),
            )
            for trial in case.trials
        )
        return replace(case, trials=trials)

    return replace(record, cases=tuple(with_answer(case) for case in record.cases))


def _measure_page(file: Path) -> tuple[float, float, float, float]:
    """Return seconds until the list is shown and all data is read, and milliseconds of the slowest search and click."""
    from playwright.sync_api import sync_playwright

    opened, read, searched, filtered = [], [], [], []
    with sync_playwright() as playwright:
        program = playwright.chromium.launch(executable_path=find_browser(os.environ), args=list(BROWSER_OPTIONS))
        for _ in range(_TIMES):
            page = program.new_page(viewport={"width": 1280, "height": 800})
            started = time.perf_counter()
            page.goto(file.as_uri())
            page.wait_for_selector(".option")
            opened.append(time.perf_counter() - started)
            page.fill("input[type=search]", "rule")
            page.wait_for_selector("text=Reading answers", state="detached", timeout=600_000)
            read.append(time.perf_counter() - started)
            searched.append(max(page.evaluate(_TYPED, query) for query in _QUERIES))
            page.fill("input[type=search]", "")
            filtered.append(max(page.evaluate(_CHOSEN) for _ in range(4)))
            page.close()
        program.close()
    median = statistics.median
    return median(opened), median(read), median(searched), median(filtered)


if __name__ == "__main__":
    main()
