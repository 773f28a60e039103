"""Case ids and content hashes."""

from __future__ import annotations

import random
import re
from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.suite.identity import case_ids, slug
from holodeck_action.suite.values import Case
from tests.suite.folders import EQUALITY, HEAD, load, load_policy_of
from tests.tables import walk

NAMES = (
    st.none()
    | st.text(min_size=1, max_size=6)
    | st.sampled_from(["Refund", "refund", "refund!", "case-aaaaaaaaaaaa", "🙂"])
)
HASHES = st.sampled_from([letter * 64 for letter in "abcdef"])


@given(st.lists(st.tuples(NAMES, HASHES), max_size=12), st.randoms(use_true_random=False))
def test_ids_are_unique_and_do_not_depend_on_the_order(cases: list[tuple[str | None, str]], rng: random.Random) -> None:
    ids = case_ids(cases)
    assert len(set(ids)) == len(cases)
    order = list(range(len(cases)))
    rng.shuffle(order)
    again = case_ids([cases[index] for index in order])
    for case in set(cases):
        # Cases that are equal cannot be told apart: together they keep their ids.
        before = sorted(found for found, one in zip(ids, cases, strict=True) if one == case)
        after = sorted(found for found, index in zip(again, order, strict=True) if cases[index] == case)
        assert before == after


@given(st.text(max_size=120))
def test_a_slug_is_words_joined_by_hyphens(name: str) -> None:
    found = slug(name)
    assert len(found) <= 80
    assert re.fullmatch(r"([^\W_]+(-[^\W_]+)*)?", found)
    assert slug(found) == found


@walk(
    ("name", "expected"),
    [
        ("Refund after 40 days!", "refund-after-40-days"),
        ("  General_Support  ", "general-support"),
        ("Größe ≠ ﬁne", "größe-fine"),
        ("日本語", "日本語"),
        ("🙂", ""),
        ("x" * 100, "x" * 80),
    ],
)
def test_slugs(name: str, expected: str) -> None:
    assert slug(name) == expected


@walk(
    ("cases", "ids"),
    [
        ([("Refund", "a" * 64)], ["refund"]),
        ([(None, "a" * 64)], ["case-aaaaaaaaaaaa"]),
        ([("🙂", "a" * 64)], ["case-aaaaaaaaaaaa"]),
        ([("Refund", "a" * 64), ("refund", "b" * 64)], ["refund-aaaaaaaa", "refund-bbbbbbbb"]),
        ([("R", "a" * 64), ("R", "a" * 64)], ["r-aaaaaaaa", "r-aaaaaaaa-2"]),
        (
            [(None, "a" * 64), (None, "a" * 64), (None, "a" * 64)],
            [f"case-aaaaaaaaaaaa{end}" for end in ("", "-2", "-3")],
        ),
    ],
)
def test_ids(cases: list[tuple[str | None, str]], ids: list[str]) -> None:
    assert case_ids(cases) == ids


def one(folder: Path, case: str) -> Case:
    return load(folder, f"{HEAD}{EQUALITY}test_cases:\n- {case}\n").cases[0]


BASE = "{input: a, ground_truth: b, expected_tools: [f], retrieval_context: [c]}"


@walk(
    "other",
    [
        "{name: n, input: a, ground_truth: b, expected_tools: [f], retrieval_context: [c]}",
        "{input: a, ground_truth: b, expected_tools: [{name: f}], retrieval_context: [c], evaluations: []}",
        "{retrieval_context: [c], expected_tools: {tools: [f]}, ground_truth: 'b', input: 'a', files: []}",
        "{input: a, ground_truth: b, expected_tools: [f], retrieval_context: [c], evaluations: [{metric: equality}]}",
    ],
)
def test_the_content_hash_is_the_same_for_the_same_question(tmp_path: Path, other: str) -> None:
    assert one(tmp_path, other).content_hash == one(tmp_path, BASE).content_hash


@walk(
    "other",
    [
        "{input: A, ground_truth: b, expected_tools: [f], retrieval_context: [c]}",
        "{input: a, ground_truth: B, expected_tools: [f], retrieval_context: [c]}",
        "{input: a, ground_truth: b, expected_tools: [], retrieval_context: [c]}",
        "{input: a, ground_truth: b, retrieval_context: [c]}",
        "{input: a, ground_truth: b, expected_tools: [{name: f, count: 2}], retrieval_context: [c]}",
        "{input: a, ground_truth: b, expected_tools: [{name: f, match: exact}], retrieval_context: [c]}",
        "{input: a, ground_truth: b, expected_tools: [{name: f, args: {x: 1}}], retrieval_context: [c]}",
        "{input: a, ground_truth: b, expected_tools: {tools: [f], order: strict}, retrieval_context: [c]}",
        "{input: a, ground_truth: b, expected_tools: [f], retrieval_context: []}",
        "{input: a, ground_truth: b, expected_tools: [f], retrieval_context: [c], "
        "files: [{path: agent.yaml, type: text}]}",
        "{turns: [{input: a, ground_truth: b, expected_tools: [f], retrieval_context: [c]}]}",
    ],
)
def test_the_content_hash_changes_with_the_question(tmp_path: Path, other: str) -> None:
    assert one(tmp_path, other).content_hash != one(tmp_path, BASE).content_hash


def test_turn_config_is_part_of_the_question(tmp_path: Path) -> None:
    turns = "{turns: [{input: a, ground_truth: b, turn_config: %s}]}"
    hashes = {one(tmp_path, turns % config).content_hash for config in ("{x: 1}", "{x: '1'}", "{}", "{y: 1}")}
    assert len(hashes) == 4
    assert one(tmp_path, turns % "{}").content_hash == one(tmp_path, turns % "null").content_hash


def test_the_overlay_changes_the_hash_but_not_the_id(tmp_path: Path) -> None:
    agent = f"{HEAD}{EQUALITY}test_cases: [{{input: a, ground_truth: b}}]\n"
    plain = load(tmp_path, agent).cases[0]
    overlays = [
        "retrieval: {ground_truth_chunk_ids: [x]}",
        "retrieval: {ground_truth_chunk_ids: {x: 2}}",
        "expected_trajectory: [{name: f}]",
    ]
    found = [load_policy_of(tmp_path, agent, f"cases: {{{plain.id}: {{{text}}}}}").cases[0] for text in overlays]
    assert {case.id for case in found} == {plain.id}
    assert len({plain.content_hash, *(case.content_hash for case in found)}) == 4
    silent = load_policy_of(tmp_path, agent, f"cases: {{{plain.id}: {{weight: 2, tags: [x]}}}}").cases[0]
    assert silent.content_hash == plain.content_hash


def test_duplicate_names_get_a_notice(tmp_path: Path) -> None:
    cases = [{"name": "twin", "input": f"q{n}", "ground_truth": "a"} for n in range(7)]
    suite = load(tmp_path, HEAD + EQUALITY + yaml.safe_dump({"test_cases": cases}))
    ids = [case.id for case in suite.cases]
    assert suite.notices == (f'7 cases are named "twin": their ids are {", ".join(ids[:5])}, …',)
