"""An agent that does not answer `never`."""

import time


def answer(messages):
    question = messages[-1]["content"]
    if question == "never":
        time.sleep(60)
    return question
