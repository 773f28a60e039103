"""Measures the text metrics against the bare libraries, in one process: `python -m bench.metrics [--wordnet DIR]`.

Both score the same 1,000 pairs of about 60 words once, one after the other, with cold caches. Imports and the loading
of WordNet are not counted on either side; the latter is on a separate line. The scores must be equal.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import click

from bench.pairs import paraphrase_pairs
from bench.wordnet_reader import DEBIAN_DIRECTORY, wordnet_reader
from holodeck_action.metrics.text.meteor import meteor, synonyms
from holodeck_action.metrics.text.overlap import bleu, rouge, token_f1

_VARIANTS = ("rouge1", "rouge2", "rougeL")

Metric = Callable[[str, str], object]


class Contest(NamedTuple):
    """One of our metrics and the library call that it must equal."""

    name: str
    ours: Metric
    library: Metric
    peer: str


def _contests(directory: Path) -> tuple[list[Contest], Metric]:
    import sacrebleu
    from nltk.tokenize import word_tokenize
    from nltk.translate.meteor_score import meteor_score
    from rouge_score.rouge_scorer import RougeScorer

    from bench.bare_metrics import plain_f1

    scorer = RougeScorer(list(_VARIANTS))
    wordnet = wordnet_reader(directory)
    wordnet.synsets("warm")

    def tokens(text: str) -> list[str]:
        return list(word_tokenize(text, preserve_line=True))

    def library_rouge(response: str, reference: str) -> object:
        return {name: score.fmeasure for name, score in scorer.score(reference, response).items()}

    def library_bleu(response: str, reference: str) -> object:
        return min(sacrebleu.sentence_bleu(response, [reference]).score / 100, 1.0)

    tokenised: dict[str, list[str]] = {}

    def library_tokens(response: str, reference: str) -> object:
        tokenised[response], tokenised[reference] = tokens(response), tokens(reference)
        return None

    def library_meteor(response: str, reference: str) -> object:
        return meteor_score([tokenised[reference]], tokenised[response], wordnet=wordnet)

    return [
        Contest("BLEU", bleu, library_bleu, "sacrebleu.sentence_bleu"),
        Contest("ROUGE-1/2/L", rouge, library_rouge, "rouge_score RougeScorer.score"),
        Contest("METEOR", meteor, library_meteor, "nltk meteor_score on ready tokens"),
        Contest("token F1", token_f1, plain_f1, "a plain implementation"),
    ], library_tokens


def _time(metric: Metric, pairs: list[tuple[str, str]]) -> tuple[float, list[object]]:
    """Return the milliseconds for all pairs, and the scores."""
    gc.collect()
    start = time.perf_counter()
    scores = [metric(response, reference) for response, reference in pairs]
    return (time.perf_counter() - start) * 1000, scores


def _line(name: str, ours_ms: float, library_ms: float, note: str) -> str:
    return f"{name:<14}{ours_ms:>10.1f}{library_ms:>12.1f}{ours_ms / library_ms:>8.3f}  {note}"


@click.command()
@click.option("--wordnet", default=DEBIAN_DIRECTORY, type=click.Path(path_type=Path), help="WordNet 3.0 dictionary.")
@click.option("--pairs", "count", default=1000, show_default=True, help="Number of pairs.")
def main(wordnet: Path, count: int) -> None:
    """Time our text metrics against the bare libraries on the same pairs."""
    if not (wordnet / "data.noun").is_file():
        hint = "install Debian's package wordnet-base, or name the dictionary's directory with --wordnet"
        click.echo(f"No WordNet in {wordnet}: {hint}.", err=True)
        sys.exit(2)
    start = time.perf_counter()
    synonyms["warm"]
    table_ms = (time.perf_counter() - start) * 1000
    pairs = paraphrase_pairs(count, words=(50, 70), seed=60)
    # BuildContext the pairs used the synonyms, which must not warm the metric's cache.
    synonyms.clear()
    start = time.perf_counter()
    contests, tokenise = _contests(wordnet)
    reader_ms = (time.perf_counter() - start) * 1000

    ours_total = library_total = 0.0
    click.echo(f"{'metric':<14}{'ours ms':>10}{'library ms':>12}{'ratio':>8}  library")
    tokenise_ms, _ = _time(tokenise, pairs)
    for contest in contests:
        ours_ms, ours = _time(contest.ours, pairs)
        library_ms, theirs = _time(contest.library, pairs)
        if ours != theirs:
            click.echo(f"{contest.name}: the scores differ from those of {contest.peer}.", err=True)
            sys.exit(1)
        ours_total += ours_ms
        library_total += library_ms
        click.echo(_line(contest.name, ours_ms, library_ms, contest.peer))
    click.echo(_line("total", ours_total, library_total, "ours with, the libraries without METEOR's tokeniser"))
    click.echo(_line("with tokens", ours_total, library_total + tokenise_ms, "nltk word_tokenize added"))
    click.echo(_line("load WordNet", table_ms, reader_ms, "nltk WordNetCorpusReader and the libraries' imports"))


if __name__ == "__main__":
    main()
