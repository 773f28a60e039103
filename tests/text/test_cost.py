"""Long and hostile texts, and what scoring imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

from holodeck_action.metrics.text.meteor import meteor
from holodeck_action.metrics.text.overlap import bleu, rouge, token_f1

MEGABYTE = 1_000_000


@pytest.mark.full
@pytest.mark.parametrize(
    ("response", "reference"),
    [
        pytest.param("word and other words, " * 45_000, "The reference. It is short.", id="answer of 1 MB"),
        pytest.param("The answer. It is short.", "word and other words, " * 45_000, id="reference of 1 MB"),
        pytest.param("x" * MEGABYTE, "x" * (MEGABYTE - 1), id="one word of 1 MB"),
        pytest.param("y" * MEGABYTE + "ing", "y" * MEGABYTE + "ed", id="vowels or consonants"),
        pytest.param("!" * 300_000 + "a" + "!" * 300_000 + " " + "!" * 400_000, "a.", id="marks after the last word"),
        pytest.param("a. ) " * 200_000 + "b", ".", id="closing brackets after full stops"),
        pytest.param("'" * MEGABYTE, "''a " * 250_000, id="apostrophes"),
        pytest.param(" \n" * 500_000, ".\n" * 500_000, id="white space"),
        pytest.param(" ".join(map(str, range(140_000))), "the numbers 5 and 7", id="no word twice"),
    ],
)
def test_hostile_megabytes_are_scored_in_near_linear_time(response: str, reference: str) -> None:
    """With anything quadratic, one of these would run into the timeout of the test run."""
    for metric in (bleu, meteor, token_f1):
        assert 0.0 <= metric(response, reference) <= 1.0
    assert all(0.0 <= score <= 1.0 for score in rouge(response, reference, use_stemmer=True).values())


@pytest.mark.full
def test_identical_long_texts_are_perfect() -> None:
    text = " ".join(f"word{number % 5000}" for number in range(100_000))
    assert bleu(text, text) == 1.0
    assert rouge(text, text) == {"rouge1": 1.0, "rouge2": 1.0, "rougeL": 1.0}
    assert token_f1(text, text) == 1.0
    assert meteor(text, text) > 0.999


def test_scoring_imports_none_of_the_libraries() -> None:
    code = """if True:
        import sys
        from holodeck_action.metrics.text.overlap import bleu
        from holodeck_action.metrics.text.meteor import meteor
        from holodeck_action.metrics.text.overlap import rouge
        from holodeck_action.metrics.text.overlap import token_f1
        assert "gzip" not in sys.modules, "the table is read when METEOR needs it"
        pair = ("The cars ran quickly.", "An automobile was running fast.")
        bleu(*pair), rouge(*pair, use_stemmer=True), meteor(*pair), token_f1(*pair)
        print(sorted({"nltk", "sacrebleu", "rouge_score", "absl", "numpy", "regex"} & set(sys.modules)))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")
