from deepeval import evaluate
from deepeval.metrics import ConversationCompletenessMetric
from deepeval.test_case import ConversationalTestCase, Turn

evaluate(
    [
        ConversationalTestCase(
            turns=[
                Turn(role="user", content="Where is A-17?"),
                Turn(role="assistant", content="In Leeds."),
                Turn(role="user", content="And when does it arrive?"),
                Turn(role="assistant", content="Tomorrow."),
            ]
        )
    ],
    [ConversationCompletenessMetric(threshold=0.5)],
)
