"""Measures the CPU of the tests in units of the start of a bare Python, so that a slow machine changes nothing.

    python -m scripts.test_costs [--write] [PYTEST ARGUMENTS]

Runs pytest with the arguments (none: the tests of `make test`). Then lists the tests without the mark `full` that cost
more than `BOUND` units, and the ones with the mark that cost much less. What a test is the first to import is not its
cost: each test above the bound is measured again, in a process that has run it before.

Ends with pytest's exit code if tests fail, and with 1 if an unmarked test costs more than twice the bound, or a tier
much more than `tests/weight.json` has. `--write` lowers
the figures of `tests/weight.json`, which only fall: lines of code of the tests, units of CPU of each tier.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.check_weight import FILE, lower

ROOT = Path(__file__).parent.parent
BOUND = 30.0
"""Units that a test of the default tier may cost: 0.3 s where a bare Python starts in 10 ms of CPU."""
CHEAP = BOUND / 3
"""Units below which a test needs no mark."""
TOLERANCE = 1.25
"""How far the units of a tier may be above those of `tests/weight.json`: two measurements differ."""
_STARTS = 41
_AGAIN = "import sys, pytest; pytest.main(sys.argv[1:]); sys.exit(pytest.main(sys.argv[1:]))"


@dataclass(frozen=True)
class Cost:
    """What one test costs in units, what it makes for others, and whether it has the mark `full`."""

    units: float
    shared: float
    full: bool


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def start_cpu_s() -> float:
    """Return the CPU seconds that the start of a bare Python takes on this machine now: the median of many."""
    taken = []
    for _ in range(_STARTS):
        before = _children_cpu_s()
        subprocess.run([sys.executable, "-I", "-c", "pass"], check=True)
        taken.append(_children_cpu_s() - before)
    return statistics.median(taken)


def _run(command: Sequence[str], costs: Path, arguments: Iterable[str]) -> tuple[int, Mapping[str, Cost]]:
    unit = start_cpu_s()
    done = subprocess.run([sys.executable, *command, f"--costs={costs}", *arguments], cwd=ROOT, check=False)
    unit = (unit + start_cpu_s()) / 2
    found = json.loads(costs.read_text(encoding="utf-8")) if costs.exists() else {}
    return done.returncode, {
        test: Cost(cost["cpu_s"] / unit, cost["shared_s"] / unit, cost["full"]) for test, cost in found.items()
    }


def _measure_again(tests: Sequence[str], folder: Path) -> Mapping[str, Cost]:
    """Measure tests in one process that has run each of them once before."""
    if not tests:
        return {}
    options = ["-n0", "-q", "--no-header", "-p", "no:cacheprovider", "--no-second-try", "-m", ""]
    return _run(("-c", _AGAIN), folder / "again.json", [*options, *tests])[1]


def main(arguments: Sequence[str]) -> int:
    """Measure, print what stands in the wrong tier, and return the exit code."""
    write = "--write" in arguments
    passed_on = [argument for argument in arguments if argument != "--write"]
    with tempfile.TemporaryDirectory() as folder:
        code, costs = _run(("-m", "pytest"), Path(folder, "costs.json"), passed_on)
        suspects = [test for test, cost in costs.items() if cost.units > BOUND and not cost.full]
        again = _measure_again(suspects, Path(folder))
    best = {test: min(cost.units, again.get(test, cost).units) for test, cost in costs.items()}
    above = {test: best[test] for test in suspects if best[test] > BOUND}
    cheap = {test: best[test] for test, cost in costs.items() if cost.full and best[test] < CHEAP}
    for title, tests in (("above the bound, not marked full", above), ("marked full, but cheap", cheap)):
        print(f"{len(tests)} tests {title} ({BOUND:.0f} units):")
        for test, units in sorted(tests.items(), key=lambda item: -item[1]):
            print(f"{units:7.0f}  {test}")
    tiers = {
        tier: round(sum(cost.units + cost.shared for cost in costs.values() if cost.full is full))
        for tier, full in (("default", False), ("full", True))
    }
    for tier, units in tiers.items():
        print(f"{tier}: {units:,} units in {sum(cost.full is (tier == 'full') for cost in costs.values()):,} tests")
    known = json.loads(FILE.read_text(encoding="utf-8"))
    heavier = [tier for tier, units in tiers.items() if units > TOLERANCE * known[tier]]
    for tier in heavier:
        print(f"{tier}: {tiers[tier] / known[tier]:.2f} times the {known[tier]:,} units of tests/weight.json")
    if write:
        lower(FILE, {tier: units for tier, units in tiers.items() if units})
    double = [test for test, units in above.items() if units > 2 * BOUND]
    for test in double:
        print(f"Failure: {test} costs more than {2 * BOUND:.0f} units and has no mark `full`.")
    if code:
        print(f"Failure: pytest ended with {code}; its own lines stand above the lists.")
    return code or int(bool(heavier or double))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
