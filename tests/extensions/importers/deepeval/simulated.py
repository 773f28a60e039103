"""A test of a simulated conversation."""

from deepeval.dataset import ConversationalGolden
from deepeval.simulator import ConversationSimulator

GOLDEN = ConversationalGolden(
    scenario="Ada wants her money back for a kettle.",
    user_description="Ada, in a hurry.",
    expected_outcome="The 30 euros are refunded.",
)
GOLDENS = [GOLDEN, ConversationalGolden("Bo asks for a grinder.", name="Bo")]


def test_refund():
    ConversationSimulator(model_callback=print).simulate(conversational_goldens=GOLDENS)
