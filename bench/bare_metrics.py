"""Scores the pairs of a suite with the bare libraries, as a script would: `python -m bench.bare_metrics FOLDER`.

BLEU with sacreBLEU, ROUGE with rouge-score, METEOR with NLTK, and a plain token F1. NLTK gets this program's table of
synonyms, since WordNet is not on every machine; NLTK's own reader takes more than a second longer.
"""

from __future__ import annotations

import json
import re
import string
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import sacrebleu
import yaml
from nltk.tokenize import word_tokenize
from nltk.translate.meteor_score import meteor_score
from rouge_score.rouge_scorer import RougeScorer

from holodeck_action.metrics.text.meteor import synonyms


def plain_f1(response: str, reference: str) -> float:
    """Return the token F1 by a direct implementation."""

    def words(text: str) -> list[str]:
        punctuation = set(string.punctuation)
        kept = "".join(character for character in text.lower() if character not in punctuation)
        return re.sub(r"\b(a|an|the)\b", " ", kept).split()

    ours, theirs = words(response), words(reference)
    common = sum((Counter(ours) & Counter(theirs)).values())
    if not common:
        return 0.0
    precision, recall = common / len(ours), common / len(theirs)
    return 2 * precision * recall / (precision + recall)


def main(folder: Path) -> None:
    suite = yaml.load((folder / "agent.yaml").read_bytes(), yaml.CSafeLoader)
    truths = {case["name"]: case["ground_truth"] for case in suite["test_cases"]}
    rows = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    pairs = [(row["response"], truths[row["case"]]) for row in rows]
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"])
    wordnet = SimpleNamespace(synsets=_synsets)
    for response, reference in pairs:
        sacrebleu.sentence_bleu(response, [reference])
        scorer.score(reference, response)
        theirs, ours = (word_tokenize(text, preserve_line=True) for text in (reference, response))
        meteor_score([theirs], ours, wordnet=wordnet)
        plain_f1(response, reference)


def _synsets(word: str) -> list[SimpleNamespace]:
    """Return one set with all synonyms of a word, in the form of NLTK's WordNet."""
    lemmas = [SimpleNamespace(name=lambda name=name: name) for name in synonyms[word]]
    return [SimpleNamespace(lemmas=lambda: lemmas)]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
