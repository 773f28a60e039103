"""Measures the validation of 200,000 cases from a Parquet file, and of 1,000 cases in each other format."""

from __future__ import annotations

import csv
import json
import tempfile
from pathlib import Path

import pyarrow
import pyarrow.parquet

from bench.processes import PROGRAM, cheapest_run

MANY = 200_000
SUITE = """name: measured
model: {{provider: openai, name: gpt-4o}}
instructions: {{inline: Answer.}}
evaluations: {{metrics: [{{type: standard, metric: rouge, threshold: 0.5}}]}}
test_cases_file: {file}
"""


def case_rows(first: int, end: int) -> list[dict[str, str]]:
    return [
        {
            "name": f"case {n}",
            "input": f"What is the state of order A-{n}, and when will it arrive at my address?",
            "ground_truth": f"Order A-{n} was sent on Monday and arrives on Thursday.",
        }
        for n in range(first, end)
    ]


def write_suite_of(folder: Path, name: str, count: int) -> Path:
    """Write a suite whose cases are in the file `name`, in the format of its suffix."""
    folder.mkdir()
    cases = case_rows(0, min(count, 1000))
    (folder / "agent.yaml").write_text(SUITE.format(file=name), encoding="utf-8")
    with (folder / name).open("w", encoding="utf-8", newline="") as out:
        if name.endswith(".csv"):
            table = csv.DictWriter(out, list(cases[0]))
            table.writeheader()
            table.writerows(cases)
        elif name.endswith(".jsonl"):
            out.writelines(f"{json.dumps(case)}\n" for case in cases)
        else:
            json.dump(cases, out)
    if name.endswith(".parquet"):
        with pyarrow.parquet.ParquetWriter(folder / name, pyarrow.Table.from_pylist(cases).schema) as file:
            # Write in parts, since the measured process starts with the memory of this one.
            for first in range(0, count, 1000):
                file.write_table(pyarrow.Table.from_pylist(case_rows(first, first + 1000)))
    return folder


def main() -> None:
    with tempfile.TemporaryDirectory() as root:
        folders = {
            f"{count:,} cases of {kind}": write_suite_of(Path(root) / f"{count}-{kind}", f"cases.{kind}", count)
            for count, kind in ((1000, "json"), (1000, "csv"), (1000, "jsonl"), (1000, "parquet"), (MANY, "parquet"))
        }
        costs = {name: cheapest_run((*PROGRAM, "validate"), folder, 3) for name, folder in folders.items()}
    print("Validation of tables (best of 3):")
    for name, cost in costs.items():
        assert cost.code == 0
        print(f"  {name:<28} {cost.wall_s:>6.2f} s  {cost.cpu_s:>6.2f} s of processor  {cost.peak_mib:>5.0f} MiB")


if __name__ == "__main__":
    main()
