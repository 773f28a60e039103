"""docs/scale.md shows what its figures file holds, and the model, the simulation and real runs agree."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner

from bench.pages import current_table
from bench.scale import COMMAND, PAGE, compare_seconds, main
from bench.scale_model import Fleet, Load, Plan, Provider, expected_largest, forecast, station_rates, wall_seconds
from bench.scale_plans import DIFFERENCES, SCENARIOS
from bench.scale_simulation import scale_down, simulate
from bench.scale_tables import ROWS, measured_costs, read_figures, table_text
from tests.tables import walk

FOUND = read_figures()
COSTS = measured_costs(FOUND)
JUDGED = Load(2_000, judged=1)


@walk("name", ROWS)
def test_the_tables_are_those_of_the_figures(name: str) -> None:
    assert current_table(PAGE, name, COMMAND) == table_text(name, FOUND)


def test_every_plan_of_the_page_was_simulated() -> None:
    assert [*FOUND["plans"]] == [scenario.name for scenario in SCENARIOS]
    assert [*FOUND["differences"]] == [*DIFFERENCES]


def test_real_runs_took_what_the_simulation_says() -> None:
    assert len(FOUND["checks"]) == 5
    for what, real, simulation in FOUND["checks"]:
        assert simulation == pytest.approx(real, rel=0.1), what


@pytest.mark.full
@pytest.mark.parametrize("name", DIFFERENCES)
def test_the_model_and_the_simulation_agree(name: str) -> None:
    plan = DIFFERENCES[name]
    model, simulation = compare_seconds(COSTS, replace(plan, load=replace(plan.load, cases=8_000)), seeds=2)
    # In so small a run, one loss more or less counts.
    lost = plan.fleet.losses_per_hour > 0
    assert simulation == pytest.approx(model, rel=0.4 if lost else 0.15)


@walk("name", DIFFERENCES)
def test_they_agreed_on_larger_runs(name: str) -> None:
    model, simulation = FOUND["differences"][name]
    assert simulation == pytest.approx(model, rel=0.05 if "loss" not in name and "same" not in name else 0.15)


@pytest.mark.full
def test_the_same_seed_gives_the_same_run() -> None:
    plan = Plan(JUDGED, Fleet(machines=3, losses_per_hour=20), Provider(2_000, faults=0.02))
    assert simulate(COSTS, plan, 7) == simulate(COSTS, plan, 7)
    assert simulate(COSTS, plan, 7) != simulate(COSTS, plan, 8)


@pytest.mark.full
def test_no_case_is_lost_and_refused_calls_come_again() -> None:
    found = simulate(COSTS, Plan(JUDGED, Fleet(machines=4, boot_s=0), Provider(3_000, faults=0.05)))
    assert found.refused > 0
    assert found.calls == JUDGED.cases * JUDGED.calls + found.refused + found.failed
    # The account's limit is 50 calls a second, and one second of it at the beginning.
    assert found.wall_s >= (found.calls - found.refused) / 50 - 1


def test_a_lost_shard_without_a_journal_runs_again() -> None:
    fleet = Fleet(machines=4, losses_per_hour=30, boot_s=5)
    kept = simulate(COSTS, Plan(JUDGED, fleet, Provider()), 3)
    lost = simulate(COSTS, Plan(JUDGED, replace(fleet, keeps_disk=False), Provider()), 3)
    assert kept.lost > 0
    assert lost.repeated > kept.repeated
    assert kept.repeated <= kept.lost * 2 * fleet.at_once


def test_a_cluster_gives_the_cases_of_a_lost_worker_to_others() -> None:
    fleet = Fleet("cluster", machines=4, losses_per_hour=30, boot_s=30)
    found = simulate(COSTS, Plan(JUDGED, fleet, Provider()), 3)
    shards = simulate(COSTS, Plan(JUDGED, replace(fleet, kind="shards"), Provider()), 3)
    assert found.lost > 0
    assert found.repeated > 0
    assert found.wall_s < shards.wall_s


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["tokens a minute, 4 shards", "coordinator, cluster of 16"])
def test_the_station_that_sets_the_pace_is_the_busiest(name: str) -> None:
    plan = DIFFERENCES[name]
    slowest = min(station_rates(COSTS, plan).items(), key=lambda each: each[1])[0]
    assert forecast(COSTS, plan).pace == slowest == name.partition(",")[0]
    shares = simulate(COSTS, plan).shares
    assert max(shares, key=shares.__getitem__) == slowest


@pytest.mark.full
def test_a_smaller_plan_takes_as_long() -> None:
    plan = Plan(replace(JUDGED, cases=8_000), Fleet(machines=4), Provider(3_000, 9e6))
    costs, fewer = scale_down(COSTS, plan, 2)
    assert (fewer.load.cases, fewer.fleet.machines, fewer.provider.requests_per_minute) == (4_000, 2, 1_500)
    assert wall_seconds(costs, fewer) == pytest.approx(wall_seconds(COSTS, plan))
    assert simulate(costs, fewer).wall_s == pytest.approx(simulate(COSTS, plan).wall_s, rel=0.1)
    with pytest.raises(ValueError, match="4 machines cannot be divided by 3"):
        scale_down(COSTS, plan, 3)


def test_most_losses_of_one_machine() -> None:
    # One machine: the mean. Two with mean 1: sum over k of 1 − F(k)², F(0) = 0.3679, F(1) = 0.7358, F(2) = 0.9197, …
    assert expected_largest(1, 0.5) == pytest.approx(0.5)
    assert expected_largest(2, 1.0) == pytest.approx(1.5238, abs=1e-3)
    assert expected_largest(5, 0.0) == 0.0


@pytest.mark.full
def test_a_plan_of_ones_own() -> None:
    asked = ["plan", "--cases", "5000", "--judged", "1", "--machines", "2", "--requests", "600", "--rate", "1e9"]
    found = CliRunner().invoke(main, asked)
    assert found.exit_code == 0, found.output
    first, *_, last = found.output.splitlines()
    # 10,000 calls at 600 a minute.
    assert "requests a minute sets the pace" in first
    assert "takes 18 min" in first
    assert last in ("simulated: 18 min", "simulated: 19 min")
