"""Other names for the fields of a case, as tables, question sets and other tools have them."""

from __future__ import annotations

import re

SYNONYMS = {
    "id": "case_id question_id test_id row_id qid uid key no nr number",
    "name": "title case case_name test test_name test_case scenario description",
    "input": "inputs question questions query prompt request user_input user_query user_message message utterance"
    " problem instruction",
    "ground_truth": "answer expected expected_answer expected_output expected_result expected_response reference"
    " reference_answer ideal ideal_answer gold gold_answer golden_answer correct_answer target solution output",
    "ground_truths": "answers expected_answers references reference_answers gold_answers correct_answers targets",
    "retrieval_context": "context contexts document documents passage passages source sources",
    "expected_tools": "tool tools tool_calls expected_tool expected_tool_calls",
    "tags": "tag label labels category categories topic group",
    "weight": "importance points",
}
"""Fields of a case, each with the names that mean it: small letters, with `_` between words."""
_FIELDS = {word: field for field, words in SYNONYMS.items() for word in (field, *words.split())}


def field_meant_by(name: str) -> str | None:
    """Return the field of a case that a name means, such as `ground_truth` for `Expected answer (short)`; None if no
    synonym is in the name or similar to it. Of several synonyms the longest counts."""
    from difflib import get_close_matches

    words = "_".join(re.findall(r"[^\W_]+", name.lower()))
    found = [word for word in _FIELDS if f"_{word}_" in f"_{words}_"] or get_close_matches(words, _FIELDS, 1, 0.8)
    return _FIELDS[max(found, key=len)] if found else None
