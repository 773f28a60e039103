"""Scores the pairs of a suite with the bare libraries: `python -m bench.bare_metrics FOLDER`.

It prints the CPU seconds of its calls to sacrebleu and rouge-score, without imports.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import sacrebleu
import yaml
from rouge_score.rouge_scorer import RougeScorer


def main(folder: Path) -> None:
    suite = yaml.load((folder / "agent.yaml").read_bytes(), yaml.CSafeLoader)
    truths = {case["name"]: case["ground_truth"] for case in suite["test_cases"]}
    rows = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    pairs = [(row["response"], truths[row["case"]]) for row in rows]
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"])
    started = time.process_time()
    for response, reference in pairs:
        sacrebleu.sentence_bleu(response, [reference])
        scorer.score(reference, response)
    print(time.process_time() - started)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
