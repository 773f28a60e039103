"""Builds the scores of the reference libraries for more than 4,000 pairs of response and reference.

    python -m scripts.build_reference_scores --wordnet /usr/share/wordnet --other-python PYTHON OUTPUT

OUTPUT is `tests/text/reference_scores.jsonl.gz` with a line for each pair: the two texts; BLEU by Python 3.11 and by
3.12 or later, whose built-in `sum` rounds differently; the F-measures of ROUGE-1, ROUGE-2 and ROUGE-L, without and
with stemmer; METEOR by NLTK with WordNet, which NLTK reads from the files of Debian's package `wordnet-base`. None of
our own code computes scores. The pairs are generated, the same ones every time. PYTHON is an interpreter with
sacrebleu: before 3.12 if this one is 3.12 or later, else 3.12 or later.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import click

from bench.pairs import paraphrase_pairs
from bench.wordnet_reader import DEBIAN_DIRECTORY, wordnet_reader

_VARIANTS = ("rouge1", "rouge2", "rougeL")

# Characters and sequences that a tokeniser treats specially, and similar ones that none does.
_ATOMS = (
    *" \n\t\x1c\x85\u2003\xa0.,:;'\"`«»“”‘’„!?()[]{}<>-–—*@#$%&/\\_^~|+=0123456789aAàszSZtTdDmM٣ſİßΣσ中😀\u0301\ud800",
    *([" "] * 14),
    *("'s", "'ll", "n't", "''", "``", "--", "...", ". ", ", ", "cannot", "gonna", "wanna ", "'tis", " 'twas", "d'ye"),
    *(
        "more'n",
        "gİmme",
        "&quot;",
        "&amp;",
        "&lt;",
        "<skipped>",
        "-\n",
        "end.",
        "word",
        "words",
        "3.14",
        "1,000",
        "U.S.",
    ),
    *("Hello", "don't", "dogs'", "l'été", "the", "a", "running", "ran", "big", "large", "car", "automobile"),
)

_FIXED = (
    ("", ""),
    ("", "Paris"),
    ("Paris", ""),
    (" \n\t", "\u3000"),
    ("Paris", "Paris"),
    ("Paris", "paris"),
    ("Paris.", "Paris"),
    ("...", "..."),
    ("...", "…"),
    ("a", "the"),
    ("42", "42.0"),
    ("3,36 euros", "3.36 euros"),
    ("the cat sat on the mat", "the cat is on the mat"),
    ("It is a guide to action which ensures that the military always obeys the commands of the party.",) * 2,
    ("dog", "hound"),
    ("dogs", "hound"),
    ("The automobile was bought quickly", "The car was purchased fast"),
    ("children ran", "child runs"),
    ("ice_cream", "icecream"),
    ('He said "yes" and left.', "He said 'yes' and left."),
    ("«Bonjour», dit-il.", "“Bonjour”, dit-il."),
    ("Ça coûte 1 250,00 € — c’est cher !", "C’est cher : 1 250 €."),
    ("東京は日本の首都です。", "東京は日本の首都"),
    ("Москва — столица России.", "Столица России — Москва."),
    ("القاهرة عاصمة مصر", "عاصمة مصر القاهرة"),
    ("👍🏽 done", "👍 done"),
    ("https://example.org/path?query=1&x=%20#top", "https://example.org/path?query=2"),
    ("mail me at a.b@example.org", "Mail a.b@example.org!"),
    ("```python\nprint('hi')\n```", "print('hi')"),
    ("| a | b |\n|---|---|\n| 1 | 2 |", "a b 1 2"),
    ("&lt;b&gt;bold&lt;/b&gt; &amp;amp; &quot;x&quot;", '<b>bold</b> & "x"'),
    ("word " * 50, "word"),
    ("word", "word " * 50),
    ("\ud800\udc00 lone", "\udc00 lone"),
    ("nul\x00byte", "nul byte"),
)


def _odd_pairs(count: int) -> list[tuple[str, str]]:
    """Return pairs of random sequences of atoms, in which the response repeats parts of the reference."""
    random = Random(4000)
    pairs = []
    for _ in range(count):
        atoms = [_ATOMS[int(len(_ATOMS) * random.random())] for _ in range(1 + int(50 * random.random() ** 2))]
        change = random.random()
        response = [_ATOMS[int(len(_ATOMS) * random.random())] if random.random() < change else atom for atom in atoms]
        pairs.append(("".join(response), "".join(atoms)))
    return pairs


def _long_pairs() -> list[tuple[str, str]]:
    """Return pairs of texts of up to 20,000 words, made of repeated blocks so that the file stays small."""
    (first, second), (third, _) = paraphrase_pairs(2, words=(900, 1100), seed=77)
    return [
        (f"{first} {third} {first}", f"{second} {third}"),
        (f"{third} " * 3, second),
        (f"{first} " * 20, second[:400]),
        (second[:400], f"{first} " * 20),
        ("verbose " * 20_000, "short verbose answer"),
        ("x" * 100_000, "x" * 99_999),
        ("a.b " * 2_000, "a. b " * 1_000),
    ]


def pairs() -> list[tuple[str, str]]:
    """Return all pairs of response and reference, the same ones on every call."""
    return [
        *_FIXED,
        *paraphrase_pairs(300, words=(1, 1), seed=1),
        *paraphrase_pairs(700, words=(2, 6), seed=2),
        *paraphrase_pairs(1300, words=(7, 25), seed=3),
        *paraphrase_pairs(600, words=(26, 70), seed=4),
        *_odd_pairs(1300),
        *_long_pairs(),
    ]


def _bleu_scores() -> list[float]:
    import sacrebleu

    return [sacrebleu.sentence_bleu(response, [reference]).score / 100 for response, reference in pairs()]


def _bleu_scores_of(python: str) -> list[float]:
    command = [python, "-m", "scripts.build_reference_scores", "--bleu-only", "-"]
    scores: list[float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return scores


def _rows(wordnet: Any, bleu: list[tuple[float, float]]) -> list[dict[str, Any]]:
    from nltk.tokenize import word_tokenize
    from nltk.translate.meteor_score import meteor_score
    from rouge_score.rouge_scorer import RougeScorer

    scorers = {
        name: RougeScorer(list(_VARIANTS), use_stemmer=name == "rouge_stemmed") for name in ("rouge", "rouge_stemmed")
    }
    rows = []
    for (response, reference), bleu_scores in zip(pairs(), bleu, strict=True):
        row: dict[str, Any] = {"response": response, "reference": reference, "bleu": bleu_scores}
        for name, scorer in scorers.items():
            scores = scorer.score(reference, response)
            row[name] = [scores[variant].fmeasure for variant in _VARIANTS]
        tokens = [word_tokenize(text, preserve_line=True) for text in (reference, response)]
        row["meteor"] = meteor_score([tokens[0]], tokens[1], wordnet=wordnet)
        rows.append(row)
    return rows


@click.command()
@click.argument("output", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--wordnet", default=DEBIAN_DIRECTORY, type=click.Path(path_type=Path), help="WordNet 3.0 dictionary.")
@click.option("--other-python", help="Interpreter on the other side of Python 3.12, with sacrebleu.")
@click.option("--bleu-only", is_flag=True, help="Print this interpreter's BLEU scores (used by the script itself).")
def main(output: str, wordnet: Path, other_python: str | None, bleu_only: bool) -> None:
    """Write the libraries' scores to OUTPUT."""
    own = _bleu_scores()
    if bleu_only:
        click.echo(json.dumps(own))
        return
    if other_python is None:
        raise click.UsageError("--other-python is missing: an interpreter on the other side of 3.12 with sacrebleu.")
    versions = [own, _bleu_scores_of(other_python)]
    if sys.version_info >= (3, 12):
        versions.reverse()
    rows = _rows(wordnet_reader(wordnet), list(zip(*versions, strict=True)))
    text = "".join(json.dumps(row) + "\n" for row in rows)
    Path(output).write_bytes(gzip.compress(text.encode("ascii"), compresslevel=9, mtime=0))
    differing = sum(first != second for first, second in zip(*versions, strict=True))
    click.echo(f"{len(rows)} pairs, of which {differing} differ in BLEU between the interpreters")


if __name__ == "__main__":
    main()
