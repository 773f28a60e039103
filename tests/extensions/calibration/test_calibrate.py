"""`calibrate`: a judge against labels of humans, by real processes against a model server on loopback."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from holodeck_action.decide.agreement import cohen_kappa, corrected_rate, wilson
from holodeck_action.record.judge_card import Confusion
from tests.commands.project import Project
from tests.extensions.calibration.labelling import GEVAL, QUESTIONED, Bench
from tests.llm.models import KEY, FakeModels, Fault

pytestmark = pytest.mark.needs("deepeval")


@pytest.fixture
def bench(project: Project) -> Iterator[Bench]:
    with FakeModels(keys=[KEY]) as models:
        yield Bench(models, project)
        assert models.violations == []


def interval(found: dict[str, float]) -> tuple[float, float, float]:
    return found["value"], found["low"], found["high"]


@pytest.mark.proves("calibrate: --results --output-dir")
def test_the_verdicts_of_a_record_are_compared_and_nobody_is_asked(bench: Bench) -> None:
    # The judge passes 0 to 24; the humans label the first 20 of 30 and fail 0 to 3 and 16 to 19.
    bench.scores = {n: 9 if n < 25 else 2 for n in range(10)} | {
        n: 9 if n < 16 or n >= 20 else 2 for n in range(10, 30)
    }
    bench.suite(30)
    assert bench.project.evaluate(OPENAI_API_KEY=KEY)[0].code == 1
    asked = len(bench.models.requests)
    bench.labels([{"case": f"case {n}", "label": "pass" if 4 <= n < 16 else "fail"} for n in range(20)])
    card = bench.card("--results", "out/results.json", "-o", "card")
    assert len(bench.models.requests) == asked
    table = Confusion(true_pass=12, false_pass=4, false_fail=0, true_fail=4)
    assert card["verdicts"] == {"true_pass": 12, "false_pass": 4, "false_fail": 0, "true_fail": 4}
    assert (card["metric"], card["judges"], card["n"], card["threshold"]) == ("quality", ["openai/judge"], 20, 0.5)
    for found, expected in (
        (card["judge"]["agreement"], wilson(16, 20)),
        (card["judge"]["kappa"], cohen_kappa(table)),
        (card["sensitivity"], wilson(12, 12)),
        (card["specificity"], wilson(4, 8)),
        (card["pass_rates"]["human"], wilson(12, 20)),
        (card["pass_rates"]["judge"], wilson(16, 20)),
        (card["pass_rates"]["of_judged"], wilson(26, 30)),
        (card["pass_rates"]["corrected"], corrected_rate(26, 30, table)),
    ):
        assert interval(found) == (expected.value, expected.low, expected.high)
    assert card["judge"]["alpha"]["low"] < card["judge"]["alpha"]["value"] < card["judge"]["alpha"]["high"]
    assert card["pass_rates"]["judged"] == 30
    assert [found["line"] for found in card["disagreements"]] == [2, 3, 4, 5]
    written = json.loads((bench.project.folder / "card" / "judge-card.json").read_bytes())
    del written["created_at"], card["created_at"]
    assert written == card


@pytest.mark.proves("calibrate: --record --replay --dry-run")
def test_the_judge_is_asked_about_given_answers(bench: Bench) -> None:
    bench.suite(2, QUESTIONED)
    bench.scores = {n: 9 if n % 3 else 1 for n in range(12)}
    rows = [{"input": f"q {n}", "response": f"answer-{n}-end", "label": int(n % 2 == 0)} for n in range(12)]
    bench.labels(rows)
    card = bench.card("-o", "card", "--record", "calls")
    assert card["source"] == "live"
    assert card["verdicts"] == {"true_pass": 4, "false_pass": 4, "false_fail": 2, "true_fail": 2}
    assert len(bench.models.requests) == 12
    assert all("q 3" in request.text for request in bench.models.requests if "answer-3-end" in request.text)
    # All answers that it judged are labelled: there is nothing to correct.
    assert card["pass_rates"]["corrected"]["value"] is None
    replayed = bench.card("agent.yaml", "--replay", "calls", OPENAI_API_KEY="")
    assert len(bench.models.requests) == 12
    for name in card.keys() - {"created_at"}:
        assert replayed[name] == card[name], name
    plan = bench.calibrate("--dry-run")
    assert (plan.code, "12 evaluations by judges" in plan.stdout, len(bench.models.requests)) == (0, True, 12)


def test_a_case_of_the_suite_gives_the_question(bench: Bench) -> None:
    bench.suite(3, QUESTIONED)
    bench.scores = dict.fromkeys(range(20, 24), 9)
    bench.labels([{"case": f"case {n % 3}", "response": f"answer-{20 + n}-end", "label": "yes"} for n in range(4)])
    card = bench.card()
    assert card["verdicts"]["true_pass"] == 4
    assert sorted(re.findall(r"question \d", " ".join(request.text for request in bench.models.requests))) == [
        "question 0",
        "question 0",
        "question 1",
        "question 2",
    ]
    assert any("no labelled answer is bad" in notice for notice in card["notices"])
    assert any("too few labels" in notice for notice in card["notices"])


def test_labels_of_the_viewer_name_their_metric(bench: Bench) -> None:
    """As `viewer/src/labels.ts` writes them: of one metric, or of the whole answer."""
    other = {**GEVAL, "name": "=tone"}
    bench.suite(6, GEVAL, other)
    bench.scores = {n: 9 if n < 3 else 1 for n in range(6)}
    assert bench.project.run("run", "-o", "out", OPENAI_API_KEY=KEY).code == 1
    head = "suite,case,turn,trial,metric,label\r\n"
    rows = [
        *(f"tested,case-{n},0,0,,{'pass' if n < 3 else 'fail'}\r\n" for n in range(6)),
        # Of its own row a metric takes the label, not that of the whole answer.
        "tested,case-0,0,0,quality,fail\r\n",
        "tested,case-5,0,0,'=tone,pass\r\n",
        "another,case-1,0,0,quality,fail\r\n",
    ]
    bench.project.write("labels.csv", head + "".join(rows))
    found = {name: bench.card("--results", "out/results.json", "--metric", name) for name in ("quality", "=tone")}
    assert found["quality"]["verdicts"] == {"true_pass": 2, "false_pass": 1, "false_fail": 0, "true_fail": 3}
    assert found["=tone"]["verdicts"] == {"true_pass": 3, "false_pass": 0, "false_fail": 1, "true_fail": 2}
    unnamed = bench.calibrate("--results", "out/results.json")
    assert (unnamed.code, "use --metric" in unnamed.stderr) == (2, True)
    bench.project.write("labels.csv", head + rows[6])
    assert bench.card("--results", "out/results.json")["metric"] == "quality"
    bench.project.write("labels.csv", head + rows[8])
    refused = bench.calibrate("--results", "out/results.json", "--metric", "quality")
    assert refused.stderr == "error: labels.csv: no label is about the metric 'quality' of suite 'tested'\n"


def test_labels_have_annotators_and_comments(bench: Bench) -> None:
    bench.suite(4)
    bench.scores = dict.fromkeys(range(4), 9)
    assert bench.project.run("run", "-o", "out", OPENAI_API_KEY=KEY).code == 0
    bench.labels(
        [
            {"case": "case 0", "label": "pass", "annotator": "ann", "comment": "fine"},
            {"case": "case 1", "label": "fail", "annotator": "'=ann", "comment": "'-1 day\n`is` no <b>answer</b>"},
            {"case": "case 2", "label": "fail", "annotator": "", "comment": ""},
            {"case": "case 3", "label": "", "annotator": "ann", "comment": "ask again"},
        ]
    )
    flags = ("--results", "out/results.json")
    card = bench.card(*flags, "-o", "card")
    assert card["n"] == 3
    comment = "-1 day\n`is` no <b>answer</b>"
    assert card["disagreements"] == [
        {"line": 3, "human": False, "judge": True, "annotator": "=ann", "comment": comment},
        {"line": 5, "human": False, "judge": True},
    ]
    shown = bench.calibrate(*flags)
    assert "line 3: comment: =ann: -1 day ⏎ `is` no <b>answer</b>\n" in shown.stdout
    assert "fine" not in shown.stdout
    assert shown.stderr == "note: labels.csv: 1 row has a comment and no label, so nothing to compare\n"
    assert (
        "* line 3: comment: `` =ann: -1 day ⏎ `is` no <b>answer</b> ``"
        in bench.calibrate(*flags, "--format", "markdown").stdout
    )
    # A later command reads the card.
    assert (
        bench.project.run("export", "out/results.json", "--format", "honeyhive", "--card", "card/judge-card.json").code
        == 0
    )


def test_what_a_metric_looks_at_is_in_the_labels(bench: Bench) -> None:
    looks = ["actual_output", "expected_output", "context", "retrieval_context"]
    bench.project.write("note.txt", "a note")
    bench.suite(1, {**GEVAL, "evaluation_params": looks}, files=[{"path": "note.txt", "type": "text"}])
    bench.scores = {0: 9}
    row = {
        "input": "q",
        "actual_output": "answer-0-end",
        "expected_output": "planted truth",
        "context": '["planted file"]',
        "retrieval_context": '["planted text", "another"]',
        "label": "pass",
    }
    bench.labels([row])
    assert bench.card()["n"] == 1
    (request,) = bench.models.requests
    for planted in ("planted truth", "planted file", "planted text", "another"):
        assert planted in request.text
    for column, name in (
        ("expected_output", "ground_truth"),
        ("context", "context"),
        ("retrieval_context", "retrieval_context"),
    ):
        bench.labels([{**row, column: ""}])
        finished = bench.calibrate()
        assert finished.code == 2
        assert finished.stderr == f"error: labels.csv:2: quality needs {name}, which the row does not contain\n"
    assert len(bench.models.requests) == 1


@pytest.mark.proves("calibrate: --threshold")
def test_scores_are_compared_as_scores_and_as_verdicts(bench: Bench) -> None:
    bench.suite(1)
    bench.scores = dict(enumerate([0, 2, 4, 6, 8, 10, 9, 7, 5, 3, 1, 6]))
    human = [0.1, 0.1, 0.6, 0.6, 0.7, 1, 0.9, 0.4, 0.5, 0.2, 0, 0.55]
    bench.labels(
        [{"input": "q", "response": f"answer-{n}-end", "label": label} for n, label in enumerate(human)],
    )
    card = bench.card("--record", "calls")
    assert card["verdicts"] == {"true_pass": 6, "false_pass": 1, "false_fail": 1, "true_fail": 4}
    error = sum(abs(label - bench.scores[n] / 10) for n, label in enumerate(human)) / 12
    assert card["scores"]["mean_absolute_error"] == pytest.approx(error)
    assert 0.8 < card["scores"]["pearson"] < 1
    assert 0.8 < card["scores"]["spearman"] < 1
    assert card["scores"]["alpha"]["low"] < card["scores"]["alpha"]["value"]
    stricter = bench.card("--replay", "calls", "--threshold", "0.65")
    assert stricter["verdicts"] == {"true_pass": 3, "false_pass": 1, "false_fail": 0, "true_fail": 8}
    assert stricter["threshold"] == 0.65


def test_humans_are_compared_with_each_other(bench: Bench) -> None:
    bench.suite(1)
    bench.scores = dict.fromkeys(range(12), 9)
    bench.labels(
        [
            {
                "input": "q",
                "response": f"answer-{n}-end",
                "label": "pass" if n < 6 else "fail",
                "label_2": "" if n == 11 else "pass" if n < 8 else "fail",
                "label_3": "",
            }
            for n in range(12)
        ]
    )
    card = bench.card()
    humans = card["humans"]
    assert (humans["raters"], humans["first_two"]["n"]) == (3, 11)
    assert humans["first_two"]["agreement"]["value"] == pytest.approx(9 / 11)
    expected = cohen_kappa(Confusion(6, 2, 0, 3))
    assert interval(humans["first_two"]["kappa"]) == (expected.value, expected.low, expected.high)


def test_a_judge_that_fails_is_no_verdict_on_the_judge(bench: Bench) -> None:
    bench.suite(1)
    bench.scores = dict.fromkeys(range(3), 9)
    bench.labels([{"input": "q", "response": f"answer-{n}-end", "label": "pass"} for n in range(3)])
    bench.models.fail(Fault(status=400, body={"error": {"message": "broken"}}, times=None, about=about(1)))
    finished = bench.calibrate("-o", "card", "--min-agreement-lower-bound", "0.9")
    assert finished.code == 3, finished.stderr
    assert "incomplete: 1 of 3 labelled answers were not judged" in finished.stderr
    assert "violated" not in finished.stderr
    assert "line 3: not judged: " in finished.stdout
    card = json.loads((bench.project.folder / "card" / "judge-card.json").read_bytes())
    assert (card["n"], [found["line"] for found in card["missing"]]) == (2, [3])


def about(number: int) -> Any:
    return lambda request: f"answer-{number}-end" in request.text


@pytest.mark.proves("calibrate: --max-tokens")
def test_a_budget_stops_the_judge(bench: Bench) -> None:
    bench.suite(1)
    bench.scores = dict.fromkeys(range(3), 9)
    bench.labels([{"input": "q", "response": f"answer-{n}-end", "label": "pass"} for n in range(3)])
    finished = bench.calibrate("--max-tokens", "10")
    assert finished.code == 4, finished.stderr
    assert "stopped: " in finished.stderr
    assert bench.models.requests == []


@pytest.mark.proves("calibrate: LABELS SUITE --env-file")
def test_where_labels_suite_and_key_are(bench: Bench) -> None:
    bench.suite(1)
    bench.scores = {0: 9}
    (bench.project.folder / "agent.yaml").rename(bench.project.folder / "other.yaml")
    bench.labels([{"input": "q", "response": "answer-0-end", "label": "pass"}])
    bench.project.write("keys.env", f"OPENAI_API_KEY={KEY}\n")
    assert bench.calibrate().code == 2
    assert bench.calibrate("other.yaml").code == 0
    # The server refuses who brings no key.
    assert bench.project.run("calibrate", "labels.csv", "other.yaml").code == 3
    assert bench.project.run("calibrate", "labels.csv", "other.yaml", "--env-file", "keys.env").code == 0
    (bench.project.folder / "labels.csv").rename(bench.project.folder / "humans.csv")
    assert bench.calibrate("other.yaml").code == 2
    assert bench.project.run("calibrate", "humans.csv", "other.yaml", "--env-file", "keys.env").code == 0
    bench.models.take_violations()


@pytest.mark.proves("calibrate: --concurrency")
def test_answers_judged_at_a_time(bench: Bench) -> None:
    bench.suite(1)
    bench.scores = dict.fromkeys(range(6), 9)
    bench.labels([{"input": "q", "response": f"answer-{n}-end", "label": "pass"} for n in range(6)])
    bench.models.fail(Fault(delay=0.1, times=None))
    assert bench.calibrate("--concurrency", "2").code == 0
    assert bench.models.peak == 2
    assert bench.calibrate().code == 0
    assert bench.models.peak > 2


@pytest.mark.proves("calibrate: --max-cost-usd")
def test_dollars_stop_the_judge(bench: Bench) -> None:
    bench.suite(1, {**GEVAL, "model": bench.model("gpt-4o")})
    bench.scores = {0: 9}
    bench.labels([{"input": "q", "response": "answer-0-end", "label": "pass"}])
    finished = bench.calibrate("--max-cost-usd", "0.0000001")
    assert (finished.code, bench.models.requests) == (4, []), finished.stderr
    assert bench.calibrate("--max-cost-usd", "10").code == 0
    # A judge whose price nobody knows.
    bench.suite(1)
    finished = bench.calibrate("--max-cost-usd", "10")
    assert (finished.code, "price" in finished.stderr) == (2, True)


@pytest.mark.proves("calibrate: --min-agreement-lower-bound --min-kappa-lower-bound")
@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (("--min-agreement-lower-bound", "0.55"), 0),
        (("--min-agreement-lower-bound", "0.8"), 1),
        (("--min-kappa-lower-bound", "0.1"), 0),
        (("--min-kappa-lower-bound", "0.6"), 1),
    ],
)
def test_a_gate_is_on_the_lower_end(bench: Bench, flags: tuple[str, str], code: int) -> None:
    # 17 of 20 agree: 0.85 [0.640, 0.948], κ 0.7.
    bench.suite(1)
    bench.scores = {n: 9 if n < 10 else 1 for n in range(20)}
    bench.labels(
        [{"input": "q", "response": f"answer-{n}-end", "label": int(3 <= n < 10)} for n in range(20)],
    )
    finished = bench.calibrate(*flags)
    assert finished.code == code, finished.stdout + finished.stderr
    assert ("violated: " in finished.stderr) == bool(code)


def test_a_gate_that_labels_cannot_tell_is_violated(bench: Bench) -> None:
    bench.suite(1)
    bench.scores = dict.fromkeys(range(20), 9)
    bench.labels([{"input": "q", "response": f"answer-{n}-end", "label": "pass"} for n in range(20)])
    finished = bench.calibrate("--min-kappa-lower-bound", "0")
    assert finished.code == 1
    assert "min-kappa-lower-bound 0: there are too few labels for an interval" in finished.stderr


@pytest.mark.proves("calibrate: --format --cache")
def test_the_card_is_shown(bench: Bench) -> None:
    bench.suite(1)
    bench.scores = {n: 9 if n < 10 else 1 for n in range(20)}
    bench.labels([{"input": "q", "response": f"answer-{n}-end", "label": int(3 <= n < 11)} for n in range(20)])
    console = bench.calibrate("--cache", "kept").stdout
    assert console.startswith("judge card: quality by openai/judge: 20 labelled answers, threshold 0.5\n")
    assert re.search(r"^human passes +7 +1$", console, re.MULTILINE)
    assert re.search(r"^human fails +3 +9$", console, re.MULTILINE)
    assert re.search(r"^agreement +0\.800 \[0\.584, 0\.919\]$", console, re.MULTILINE)
    assert "judge passes, human fails: line 2, 3, 4" in console
    assert "judge fails, human passes: line 12" in console
    markdown = bench.calibrate("--cache", "kept", "--format", "markdown").stdout
    assert len(bench.models.requests) == 20
    assert "| human passes | 7 | 1 |" in markdown
    assert "| agreement | 0.800 [0.584, 0.919] |" in markdown


@pytest.mark.proves("calibrate: LABELS")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"case\na\n", ":1: the column `label` is missing"),
        (b"case,label,verdict\na,pass,x\n", ":1: column 3 has the unknown name 'verdict' (allowed: "),
        (b"case,label,label\na,pass,fail\n", ":1: the column `label` occurs twice"),
        (b"case,label,comment_2\na,pass,x\n", ":1: the column `comment_2` requires the column `label_2`"),
        (b"case,label,comment\na,,to do\n", ": no row with a label"),
        (b"response,actual_output,input,label\na,b,c,pass\n", ":1: the column `response` occurs twice"),
        (b"response,label\na,pass\n", ":1: nothing identifies the answers: add the column `case`, or "),
        (b"input,response,turn,label\na,b,0,pass\n", ":1: the column `turn` requires the column `case`"),
        (b"case,label\n", ": no row with a label"),
        (b"", ": no row with a label"),
        (b"case,label\na,maybe\n", ":2: column `label`: 'maybe' is not a label: write pass or fail"),
        (b"case,label\na,\n", ":2: column `label`: the field is empty"),
        (b"case,label\na,0.5\nb,pass\n", ":3: column `label`: 'pass' is not a number, but other labels"),
        (b"case,label\na,1.5\n", ":2: column `label`: '1.5' is not a score from 0 to 1"),
        (b"case,label\na,nan\n", ":2: column `label`: 'nan' is not a label"),
        (b"case,label\na,pass,b\n", ":2: 3 fields, but 2 columns; put texts with commas in quotes"),
        (b'case,label\n"a\nb",pass\nc,hm\n', ":4: column `label`: 'hm' is not a label"),
        (b'case,label\n"a"b,pass\n', ":2: not CSV: "),
        (b"case,label\na,pass\n\na,fail\n", ":4: repeats the answer of line 2"),
        (b"case,turn,label\na,-1,pass\n", ":2: column `turn`: '-1' is not an index"),
        (b"case,retrieval_context,label\na,text,pass\n", ":2: column `retrieval_context`: write a JSON list of texts"),
        (
            b"case,input,response,label\n,,b,pass\n",
            ":2: column `case`: the field is empty: name a case here, or fill the columns",
        ),
        (b"case,label\n\xff,pass\n", ":2: not UTF-8 text"),
    ],
)
def test_labels_are_read_strictly(project: Project, content: bytes, message: str) -> None:
    project.write("labels.csv", content)
    finished = project.run("calibrate", "labels.csv", "--results", "absent.json")
    assert finished.code == 2
    assert f"error: labels.csv{message}" in finished.stderr


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"case": "case 9", "label": "pass"}], ":2: column `case`: out/results.json: there is no case 'case 9'"),
        (
            [{"case": "case 0", "response": "another answer", "label": "pass"}],
            ":2: column `response`: out/results.json: this is not the text that was judged",
        ),
        (
            [{"case": "case 0", "turn": 3, "label": "pass"}],
            ":2: column `turn`: out/results.json: turn 3 of 'case 0' was not evaluated by quality",
        ),
        (
            [{"case": "case 0", "retrieval_context": '["x"]', "label": "pass"}],
            ":2: column `retrieval_context`: out/results.json: these are not the texts that were judged",
        ),
        (
            [{"input": "question 0", "response": "not it", "label": "pass"}],
            ":2: column `input`: out/results.json: no answer with these texts was evaluated by quality",
        ),
        (
            [{"case": "case 0", "label": "pass"}, {"case": "case-0", "label": "fail"}],
            ":3: repeats the answer of line 2",
        ),
    ],
)
def test_labels_of_other_answers_are_refused(bench: Bench, rows: list[dict[str, Any]], message: str) -> None:
    bench.suite(2, GEVAL, {"type": "standard", "metric": "bleu"})
    bench.scores = {0: 9, 1: 9}
    assert bench.project.evaluate(OPENAI_API_KEY=KEY)[0].code == 0
    bench.labels(rows)
    finished = bench.calibrate("--results", "out/results.json")
    assert finished.code == 2
    assert f"error: labels.csv{message}" in finished.stderr, finished.stderr


@pytest.mark.proves("calibrate: --metric")
def test_metrics_and_options_that_do_not_fit_are_refused(bench: Bench) -> None:
    bench.suite(2, GEVAL, {"type": "standard", "metric": "bleu"}, {**GEVAL, "name": "tone"})
    bench.scores = {0: 9, 1: 2}
    assert bench.project.evaluate(OPENAI_API_KEY=KEY)[0].code == 1
    bench.labels([{"input": f"question {n}", "response": f"answer-{n}-end", "label": 1 - n} for n in range(2)])
    asked = len(bench.models.requests)
    for flags, message in (
        ((), "agent.yaml: use --metric to name the metric that the labels are about (there are: bleu, quality, tone)"),
        (("--metric", "bleu"), "agent.yaml:22:4: bleu has no threshold, so its scores are not verdicts"),
        (("--metric", "x"), "agent.yaml: no case has the metric 'x' (there are: bleu, quality, tone)"),
        (
            ("--results", "out/results.json"),
            "out/results.json: use --metric to name the metric that the labels are about",
        ),
        (("--results", "out/results.json", "--metric", "x"), "out/results.json: there is no metric 'x'"),
        (("--results", "out/results.json", "--metric", "bleu"), "labels.csv:2: bleu has no threshold, so"),
        (("--results", "out/results.json", "--cache", "c"), "--results calls no model: leave out --cache"),
        (("agent.yaml", "--results", "out/results.json"), "--results calls no model: leave out SUITE"),
        (("--results", "labels.csv"), "labels.csv: not a results file"),
        (("--metric", "tone", "absent.yaml"), "absent.yaml: no such suite"),
    ):
        finished = bench.calibrate(*flags)
        assert finished.code == 2, flags
        assert f"error: {message}" in finished.stderr, finished.stderr
    assert len(bench.models.requests) == asked
    tone = bench.card("--results", "out/results.json", "--metric", "tone")
    assert (tone["metric"], tone["n"], tone["verdicts"]["true_pass"]) == ("tone", 2, 1)
    bleu = bench.card("--results", "out/results.json", "--metric", "bleu", "--threshold", "0.5")
    assert (bleu["judges"], bleu["verdicts"]["false_fail"]) == ([], 1)


def test_another_configuration_is_told_apart(bench: Bench) -> None:
    bench.scores = {0: 9}
    bench.labels([{"input": "q", "response": "answer-0-end", "label": "pass"}])
    found = []
    for metric in (GEVAL, GEVAL, {**GEVAL, "criteria": "Is it kind?"}, {**GEVAL, "model": bench.model("other")}):
        bench.suite(1, metric)
        found.append(bench.card()["configuration"])
    bench.suite(1, {**GEVAL, "threshold": 0.7})
    found.append(bench.card()["configuration"])
    assert [found.index(configuration) for configuration in found] == [0, 0, 2, 3, 0]
    assert {name for name in found[0] if found[0][name] != found[2][name]} == {"metric"}
    assert {name for name in found[0] if found[0][name] != found[3][name]} == {"judges"}
    assert found[3]["judges"] == ["openai/other"]
