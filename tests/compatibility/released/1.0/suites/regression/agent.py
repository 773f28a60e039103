"""An agent whose n-th answer to a question is the n-th entry of a plan; the last one is repeated."""

import json
from pathlib import Path


def answer(messages):
    question = messages[-1]["content"]
    here = Path(__file__).parent
    plan = json.loads((here / "plan.json").read_text())[question]
    file = here / "asked.json"
    asked = json.loads(file.read_text()) if file.exists() else {}
    asked[question] = asked.get(question, 0) + 1
    file.write_text(json.dumps(asked))
    return plan[min(asked[question], len(plan)) - 1]
