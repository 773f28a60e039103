"""Property tests against the prescribed libraries themselves."""

from __future__ import annotations

import string
from inspect import signature

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import LCSseq
from sacrebleu import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from holodeck_action.metrics.text.meteor import align
from holodeck_action.metrics.text.overlap import lcs_length
from holodeck_action.metrics.text.porter import stem
from holodeck_action.metrics.text.tokens import tokens_13a, treebank_tokens
from holodeck_action.metrics.text_similarity import BLEUEvaluator, METEOREvaluator, ROUGEEvaluator
from tests.tables import walk

_PLAIN = (
    "the a an cat cats mat dog dogs hound run running ran quickly quick fast car automobile cars purchase buy bought"
    " happy happiness relational conditional flies dying cannot gonna Paris U.S. 3.14 1,000 don't it's they'll 'tis"
)
_ODD = (
    "O'Neil e-mail end. stop, why? no! (yes) \"quoted\" ''old'' «guillemets» “curly” l’été café, naïve: 5–6 -- ..."
    " &amp; <b> 50% #1 a/b '' \" ' ` `` - 東京 Σίσυφος ſs İstanbul -\n \n \t \x1c \xa0 \u2003 \ud800 x_y *bold* it'S"
)
_WORDS = [*_PLAIN.split(" "), *_ODD.split(" ")]
_ENDINGS = "s es ed ing ly y yed e ies ied ll ational ationalli logi fulli ization ion ment ness iviti"
_SPECIAL = "sky skies dying news innings as y by İng relationalli hopping"

texts = st.one_of(
    st.lists(st.sampled_from(_WORDS), max_size=40).map(" ".join),
    st.lists(st.sampled_from(_WORDS), max_size=15).map("".join),
    st.text(alphabet=st.characters(exclude_categories=()), max_size=60),
    st.text(alphabet=string.printable + "«»“”‘’–—é٣", max_size=60),
    # Signs next to each other, at which the rules of the tokenisers meet.
    st.text(alphabet="a1.,:-`=@%( ", max_size=30),
)
pairs = st.one_of(
    st.tuples(texts, texts),
    st.lists(st.sampled_from(_WORDS), min_size=1, max_size=25).flatmap(
        lambda words: st.tuples(st.permutations(words).map(" ".join), st.just(" ".join(words)))
    ),
    texts.map(lambda text: (text, text)),
)
many = settings(max_examples=200)


@many
@given(texts)
def test_13a_tokens(text: str) -> None:
    assert tokens_13a(text) == Tokenizer13a()(text.rstrip()).split()


@pytest.mark.full
@many
@given(texts)
def test_treebank_tokens(text: str) -> None:
    from nltk.tokenize import word_tokenize

    assert treebank_tokens(text) == word_tokenize(text, preserve_line=True)


@many
@given(
    st.tuples(
        st.text("aeiouybcdlstnmr", max_size=7) | st.text(max_size=5),
        st.sampled_from(_ENDINGS.split(" ")),
    ).map("".join)
)
def test_stems(word: str) -> None:
    from nltk.stem.porter import PorterStemmer

    word = word.replace("*", "")
    assert stem(word) == PorterStemmer().stem(word)


@walk("word", ["", *_SPECIAL.split(" ")])
def test_stems_of_special_words(word: str) -> None:
    from nltk.stem.porter import PorterStemmer

    assert stem(word) == PorterStemmer().stem(word)


@walk(
    ("hypothesis", "reference", "partners"),
    [
        # The same word takes the last free place first.
        (["a", "a"], ["a", "b", "a", "a"], [2, 3]),
        # Places left by the first pass stay in order when two words share a stem.
        (["runs", "runs"], ["running", "run", "running"], [1, 2]),
        # A synonym takes the last free place of any of its names.
        (["car"], ["automobile", "auto", "x"], [1]),
        (["x"], ["y"], [-1]),
    ],
)
def test_alignment(hypothesis: list[str], reference: list[str], partners: list[int]) -> None:
    assert align(hypothesis, reference) == partners


@many
@given(st.lists(st.sampled_from("abcd"), max_size=80), st.lists(st.sampled_from("abcde"), max_size=80))
def test_lcs_length(left: list[str], right: list[str]) -> None:
    assert lcs_length(left, right) == LCSseq.similarity(left, right)


def test_lcs_length_over_several_blocks() -> None:
    left = [str(number * number % 91) for number in range(20_000)]
    right = [str(number * 7 % 97) for number in range(18_000)]
    assert lcs_length(left, right) == LCSseq.similarity(left, right)


def test_the_version_of_bleu_is_sacrebleus_own_signature() -> None:
    metric = BLEU(effective_order=True)
    metric.sentence_score("a b", ["a c"])
    settings, _, version = metric.get_signature().format().rpartition("|version:")
    assert BLEUEvaluator().version == f"sacrebleu {version} {settings}"


def test_the_versions_are_those_of_the_libraries_that_the_tests_hold_ours_against() -> None:
    from holodeck_action.extensions.reference.reference import LIBRARIES

    evaluators = (BLEUEvaluator(), ROUGEEvaluator(), METEOREvaluator())
    assert [" ".join(evaluator.version.split(" ")[:2]) for evaluator in evaluators] == [*LIBRARIES]


def test_the_version_of_rouge_has_its_settings() -> None:
    plain, stemmed = ROUGEEvaluator(), ROUGEEvaluator(variant="rouge1", use_stemmer=True)
    assert plain.version == "rouge-score 0.1.2 nrefs:1|type:rougeL|score:fmeasure|stem:no"
    assert stemmed.version == "rouge-score 0.1.2 nrefs:1|type:rouge1|score:fmeasure|stem:porter"


def test_the_version_of_meteor_has_nltks_defaults() -> None:
    from nltk.stem.porter import PorterStemmer
    from nltk.translate.meteor_score import meteor_score

    defaults = {name: parameter.default for name, parameter in signature(meteor_score).parameters.items()}
    stated = dict(part.split(":") for part in METEOREvaluator().version.split(" ")[2].split("|"))
    assert (defaults["preprocess"], stated["case"]) == (str.lower, "lower")
    assert isinstance(defaults["stemmer"], PorterStemmer)
    assert {name: float(stated[name]) for name in ("alpha", "beta", "gamma")} == {
        name: defaults[name] for name in ("alpha", "beta", "gamma")
    }
