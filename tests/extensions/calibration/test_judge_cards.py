"""Judge cards in the policy file: calibrate, then run, by real processes against a model server on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from holodeck_action.decide.agreement import cohen_kappa, corrected_rate, wilson
from holodeck_action.record.judge_card import NO_ESTIMATE, CardSummary, Confusion
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import read_record
from tests.commands.project import Finished, Project
from tests.extensions.calibration.labelling import GEVAL, STEPS, Bench
from tests.llm.models import KEY, FakeModels
from tests.record.records import resealed
from tests.reports.pages import Page

pytestmark = pytest.mark.needs("deepeval")

CARD = "card/judge-card.json"
TABLE = Confusion(true_pass=12, false_pass=3, false_fail=1, true_fail=8)
ANSWERS = 30
TONE = {**GEVAL, "name": "tone"}


@pytest.fixture
def bench(project: Project) -> Iterator[Bench]:
    """A judge that passes the answers 0 to 14 and 24 to 29, of which the first 24 are labelled."""
    with FakeModels(keys=[KEY]) as models:
        made = Bench(models, project)
        made.scores = {n: 9 if n < 15 or n >= 24 else 2 for n in range(ANSWERS)}
        yield made
        assert models.violations == []


def calibrated(bench: Bench, *metrics: dict[str, Any], count: int = ANSWERS) -> dict[str, Any]:
    """Run the suite, label answers, and make a card of both."""
    bench.suite(count, *metrics)
    bench.project.evaluate(OPENAI_API_KEY=KEY)
    bench.labels([{"case": f"case {n}", "label": int(n < 12 or n == 15)} for n in range(24)])
    card = bench.card("--results", "out/results.json", "--metric", "quality", "-o", "card")
    assert card["verdicts"] == {
        "true_pass": TABLE.true_pass,
        "false_pass": TABLE.false_pass,
        "false_fail": TABLE.false_fail,
        "true_fail": TABLE.true_fail,
    }
    return card


def with_card(bench: Bench, *cards: str, **policy: Any) -> None:
    judges = {"cards": [*cards] or [CARD], **policy}
    bench.project.policy(target="recorded:answers.jsonl", judges=judges)


def run(bench: Bench, *flags: str) -> tuple[Finished, Record]:
    finished, record = bench.project.evaluate(*flags, OPENAI_API_KEY=KEY)
    assert finished.code in (0, 1), finished.stdout + finished.stderr
    return finished, record


def refused(bench: Bench) -> str:
    """Return why a suite is refused, which `validate` and `run` say alike."""
    asked = len(bench.models.requests)
    finished = bench.project.run("run", OPENAI_API_KEY=KEY)
    assert finished.code == 2, finished.stdout
    assert bench.project.run("validate").stderr == finished.stderr
    assert len(bench.models.requests) == asked
    return finished.stderr


def shown(bench: Bench, form: str, results: str = "out/results.json") -> str:
    finished = bench.project.run("report", results, "--format", form)
    assert finished.code == 0, finished.stderr
    return finished.stdout


@pytest.mark.proves("SuiteJudges: cards")
def test_a_card_is_kept_and_corrects_the_pass_rate_of_the_run(bench: Bench) -> None:
    made = calibrated(bench)
    # Before, there was nothing to tell.
    assert (bench.project.out / "results.json").exists()
    assert read_record(bench.project.out / "results.json").cards == ()
    with_card(bench)
    finished, record = run(bench)
    (card,) = record.cards
    assert card == CardSummary(
        metric="quality",
        made_on=made["created_at"][:10],
        labels=24,
        missing=0,
        agreement=wilson(20, 24),
        kappa=cohen_kappa(TABLE),
        alpha=card.alpha,
        sensitivity=wilson(12, 13),
        specificity=wilson(8, 11),
        judged=30,
        pass_rate=wilson(21, 30),
        corrected=corrected_rate(21, 30, TABLE),
        stale=(),
    )
    # Rogan and Gladen by hand.
    assert card.corrected.value == pytest.approx((0.7 + 8 / 11 - 1) / (12 / 13 + 8 / 11 - 1))
    assert card.alpha.value == made["judge"]["alpha"]["value"]
    assert card.corrected.low is not None
    line = next(line for line in finished.stdout.splitlines() if line.startswith("quality: judge card of "))
    assert "24 labels, agreement 0.833 [0.641, 0.933], κ 0.660" in line
    assert f"passes 0.700 [0.521, 0.833] of 30 answers, corrected {card.corrected.value:.3f} [" in line
    assert not any("judge card" in notice for notice in record.notices)
    corrected = f"{card.corrected.value:.3f} [{card.corrected.low:.3f}, {card.corrected.high:.3f}]"
    row = f"| `quality` | `{card.made_on}` | 24 | 0.833 [0.641, 0.933] |"
    markdown = shown(bench, "markdown")
    assert row in markdown
    assert f"| 0.700 [0.521, 0.833] | {corrected} |" in markdown
    html = shown(bench, "html")
    assert f"corrected {corrected}" in html
    (told,) = json.loads(shown(bench, "json"))["cards"]
    assert (told["metric"], told["judged"], told["corrected"]["value"]) == ("quality", 30, card.corrected.value)


def test_a_run_of_other_answers_is_corrected_by_its_own_rate(bench: Bench) -> None:
    calibrated(bench)
    with_card(bench)
    bench.scores = {n: 9 if n % 2 else 2 for n in range(ANSWERS)}
    _, record = run(bench, "--limit", "20")
    (card,) = record.cards
    assert (card.judged, card.pass_rate, card.corrected) == (20, wilson(10, 20), corrected_rate(10, 20, TABLE))


def test_a_card_of_labels_that_were_judged_live_holds_for_the_same_judge(bench: Bench) -> None:
    bench.suite(ANSWERS)
    bench.labels(
        [{"input": f"q {n}", "response": f"answer-{n}-end", "label": int(n < 12 or n == 15)} for n in range(24)]
    )
    bench.card("-o", "card", "--record", "calls")
    with_card(bench)
    _, record = run(bench)
    assert [(card.stale, card.corrected) for card in record.cards] == [((), corrected_rate(21, 30, TABLE))]


CHANGES: dict[str, tuple[Callable[[Bench], None], tuple[str, ...]]] = {
    "another model": (
        lambda bench: bench.suite(ANSWERS, {**GEVAL, "model": bench.model("other")}),
        ("judges (were openai/judge, are openai/other)",),
    ),
    "the model's settings": (
        lambda bench: bench.suite(ANSWERS, {**GEVAL, "model": {**bench.model(), "temperature": 0.7}}),
        ("settings of the judges",),
    ),
    "the metric's settings": (
        lambda bench: bench.suite(ANSWERS, {**GEVAL, "evaluation_steps": [*STEPS, "Be kind."]}),
        ("settings of the metric",),
    ),
    "the threshold": (
        lambda bench: bench.suite(ANSWERS, {**GEVAL, "threshold": 0.7}),
        ("threshold (was 0.5, is 0.7)",),
    ),
    "nothing that decides": (
        lambda bench: bench.suite(ANSWERS, {**GEVAL, "timeout_ms": 50_000, "retry_on_failure": 1}),
        (),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_card_of_another_judge_is_stale_and_corrects_nothing(bench: Bench, name: str) -> None:
    change, stale = CHANGES[name]
    calibrated(bench)
    change(bench)
    with_card(bench)
    finished, record = run(bench)
    (card,) = record.cards
    assert card.stale == stale
    assert (card.corrected == NO_ESTIMATE) == bool(stale)
    line = next(line for line in finished.stdout.splitlines() if line.startswith("quality: judge card of "))
    told = (line, shown(bench, "markdown"), shown(bench, "html"))
    for text in told:
        assert ("is not used for corrections" in text) == bool(stale)
        assert all(reason in text for reason in stale)
        assert ("0.833 [" in text) != bool(stale)


def test_a_panel_of_the_policy_file_makes_a_card_stale(bench: Bench) -> None:
    calibrated(bench)
    model = bench.model()
    with_card(bench, models=[model, model, model], aggregation="median")
    _, record = run(bench)
    assert [card.stale for card in record.cards] == [
        (
            "judges (were openai/judge, are openai/judge, openai/judge, openai/judge)",
            "addresses of the judges",
            "settings of the judges",
            "how the verdicts of a panel are combined",
        )
    ]


def test_a_metric_without_a_card_is_named_only_beside_metrics_that_have_one(bench: Bench) -> None:
    bleu = {"type": "standard", "metric": "bleu"}
    calibrated(bench, GEVAL, TONE, bleu)
    assert not any("judge card" in notice for notice in read_record(bench.project.out / "results.json").notices)
    with_card(bench)
    finished, record = run(bench)
    told = "no judge card measures the judges of these metrics: tone"
    assert (record.notices[-1], f"note: {told}\n" in finished.stdout) == (told, True)
    assert [card.metric for card in record.cards] == ["quality"]
    assert {*record.configurations} == {"quality", "tone"}
    # Where no judge with a card is asked, either.
    with_card(bench)
    bench.suite(ANSWERS, {**GEVAL, "enabled": False}, TONE)
    with_card(bench)
    assert run(bench)[1].notices[-1] == told


def test_a_card_of_a_record_that_does_not_say_how_it_was_judged_is_stale(bench: Bench) -> None:
    calibrated(bench)
    path = bench.project.out / "results.json"
    old = json.loads(path.read_bytes())
    del old["configurations"], old["cards"]
    path.write_text(resealed(old))
    # Records without the fields are read, shown and judged as before.
    assert bench.card("--results", "out/results.json", "-o", "card")["configuration"] is None
    assert "judge card" not in shown(bench, "console")
    assert bench.project.run("decide", "out/results.json").code == 1
    with_card(bench)
    assert run(bench)[1].cards[0].stale == ("the card does not record how its verdicts were made",)


@pytest.mark.full
def test_records_with_cards_are_judged_again_and_resumed(bench: Bench) -> None:
    calibrated(bench)
    with_card(bench)
    _, record = run(bench)
    (bench.project.out / "judged").mkdir()
    finished = bench.project.run("decide", "out/results.json", "--min-pass-rate", "0.5", "-o", "out/judged")
    assert (finished.code, "quality: judge card of " in finished.stdout) == (0, True), finished.stderr
    again = bench.project.run("rejudge", "out/results.json", "-o", "again", OPENAI_API_KEY=KEY)
    assert again.code == 1, again.stderr
    assert read_record(bench.project.folder / "again" / "results.json").cards == record.cards
    # What a stopped run left is gone on with, and the card is about all of it.
    stopped = bench.project.run("run", "-o", "out", "--max-tokens", "4600", "--concurrency", "1", OPENAI_API_KEY=KEY)
    assert stopped.code == 4, stopped.stdout
    (left,) = read_record(bench.project.out / "results.json").cards
    finished, record = bench.project.evaluate("--resume", OPENAI_API_KEY=KEY)
    assert (record.run.resumed_trials > 0, record.cards[0].stale) == (True, ()), finished.stderr
    scored = [turn.evaluations[0].score for case in record.cases for trial in case.trials for turn in trial.turns]
    assert left.judged < record.cards[0].judged == sum(score is not None for score in scored)


def copy_card(bench: Bench, name: str, **changes: Any) -> None:
    card = json.loads((bench.project.folder / CARD).read_bytes())
    bench.project.write(name, json.dumps({**card, **changes}))


@pytest.mark.proves("SuiteJudges: cards")
def test_cards_that_cannot_be_used_are_refused_at_their_line(bench: Bench, tmp_path: Path) -> None:
    made = calibrated(bench, GEVAL, TONE, {"type": "standard", "metric": "bleu"})
    bench.project.write("broken.json", "{")
    bench.project.write("other.json", '{"a": 1}')
    bench.project.write("../outside.json", json.dumps(made))
    (bench.project.folder / "link.json").symlink_to(bench.project.folder.parent / "outside.json")
    copy_card(bench, "newer.json", schema_version=2)
    copy_card(bench, "absent.json", metric="absent")
    copy_card(bench, "bleu.json", metric="bleu")
    copy_card(bench, "short.json", n="many")
    copy_card(bench, "better.json", specificity={"value": 0.99, "low": 0.9, "high": 1.0})
    copy_card(bench, "undated.json", created_at="yesterday")
    copy_card(bench, "again.json")
    expected = {
        "absent-file.json": "does not exist (allowed: the path of a judge-card.json, relative to agent.yaml)",
        "../outside.json": "is outside the checkout",
        "link.json": "is outside the checkout",
        "broken.json": "is not a judge card: it is not valid JSON; create it again with holodeck-action calibrate",
        "other.json": "is not a judge card: it has no schema_version",
        "newer.json": 'has schema_version "2", but this version reads 1; create it again',
        "absent.json": 'is about "absent", which is not a metric of this suite (allowed: "quality", "tone")',
        "bleu.json": 'is about "bleu", which is not graded by a model; remove it',
        "short.json": "is not a judge card: n: expected int, got str; create it again",
        "better.json": "contradicts itself: specificity does not fit the rest of the card",
        "undated.json": "is not a judge card: created_at is not a date",
    }
    with_card(bench, CARD, *expected, "again.json")
    lines = [line for line in refused(bench).splitlines() if line.startswith("error: ")]
    assert len(lines) == len(expected) + 1, lines
    for at, (line, (name, message)) in enumerate(zip(lines, expected.items(), strict=False), start=1):
        assert line.startswith(f'error: holodeck-action.yaml:{5 + at}:4: judges.cards[{at}]: "{name}" {message}'), line
    assert '"again.json" is about "quality", as is judges.cards[0]: a metric can have only one card' in lines[-1]


def test_the_text_of_a_card_is_only_text(bench: Bench) -> None:
    made = calibrated(bench)
    hostile = "a|b `@octocat` <img src=x>\n::error::x ##[error]"
    configuration = {**made["configuration"], "judges": [hostile]}
    copy_card(bench, CARD, configuration=configuration)
    with_card(bench)
    finished, record = run(bench)
    assert record.cards[0].stale == (f"judges (were {hostile}, are openai/judge)",)
    assert not any(line.startswith("::error") for line in finished.stdout.splitlines())
    markdown = shown(bench, "markdown")
    (line,) = (line for line in markdown.splitlines() if "is stale and is not used for corrections" in line)
    assert "`` judges (were a¦b `@octocat` <img src=x> ⏎ ::error::x # #[error], are openai/judge) ``" in line
    page = Page(shown(bench, "html"))
    assert page.stray == []
    assert "img" not in {tag for tag, _ in page.elements}
    for form in ("markdown", "html", "json", "console"):
        assert "##[" not in shown(bench, form)


@pytest.mark.proves("schema: DOCUMENT")
def test_cards_keep_to_their_schema(bench: Bench) -> None:
    printed = bench.project.run("schema", "judge-card")
    schema = json.loads(printed.stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    made = calibrated(bench)
    check.validate(made)
    # Scores of several people, and a label that the judge has no verdict on.
    rows = [{"case": f"case {n}", "label": n / 30, "label_2": 0.5, "label_3": 0.1} for n in range(ANSWERS)]
    bench.labels(rows)
    card = bench.card("--results", "out/results.json", "--threshold", "0.4")
    assert (card["scores"] is None, card["humans"] is None) == (False, False)
    check.validate(card)
    for broken in (
        {**made, "n": "24"},
        {name: value for name, value in made.items() if name != "verdicts"},
        {**made, "configuration": {"judges": []}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            check.validate(broken)


def test_a_record_with_cards_keeps_to_its_schema(bench: Bench) -> None:
    calibrated(bench)
    with_card(bench)
    run(bench)
    for document, written in (
        ("results", (bench.project.out / "results.json").read_text()),
        ("report", shown(bench, "json")),
    ):
        schema = json.loads(bench.project.run("schema", document).stdout)
        jsonschema.Draft202012Validator(schema).validate(json.loads(written))
        assert "cards" in schema["properties"]
