"""Definitions and references of documents, and the notes that chunks get of them."""

from __future__ import annotations

from textwrap import dedent

import pytest

from holodeck_action.extensions.knowledge.definitions import Glossary, References, chunk_notes, find_definitions
from holodeck_action.extensions.knowledge.headings import Domain
from holodeck_action.extensions.knowledge.structure import ChunkRules, make_document, split_sections


def defined(text: str) -> dict[str, str]:
    return {found.term: found.text for found in find_definitions(split_sections(text))}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"Operator" means any person who runs a reactor. More.', '"Operator" means any person who runs a reactor.'),
        ("“Operator” has the meaning given in section 2;\nnext", "“Operator” has the meaning given in section 2"),
        ("**Operator** refers to a person\nwho runs it.", "Operator refers to a person who runs it."),
        ("In this part, “Operator”, shall mean 2.5 persons.", "“Operator”, shall mean 2.5 persons."),
        ('"Operator" is defined as a person\n\nNew paragraph', '"Operator" is defined as a person'),
    ],
)
def test_forms_of_definitions(text: str, expected: str) -> None:
    assert defined(text) == {"Operator": expected}


def test_bare_words_are_defined_only_where_headings_say_so() -> None:
    text = "small business means one with ten people.\nLarge business means any other."
    assert defined(f"# Rules\n\n{text}") == {}
    assert defined(f"# Interpretation\n\n{text}") == {
        "small business": "small business means one with ten people.",
        "Large business": "Large business means any other.",
    }


def test_the_first_of_two_definitions_counts_and_long_ones_are_cut() -> None:
    found = defined(f'"A b" means one.\n\n"A b" means two.\n\n"C" means {"x" * 1000}.')
    assert found["A b"] == '"A b" means one.'
    assert len(found["C"]) == 401


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Operator's key", ["Operator"]),
        ("Operators pay", ["Operator"]),
        ("the operator pays", []),
        ("Cooperators", []),
        ("Confidential Information", ["Confidential Information"]),
        ("Confidential\nInformation", ["Confidential Information"]),
        ("Information", ["Information"]),
        ("A small business; Small business", ["small business"]),
    ],
)
def test_words_that_a_text_uses(text: str, expected: list[str]) -> None:
    found = find_definitions(
        split_sections(
            '# Definitions\n\n"Operator" means a.\n"Information" means b.\n"Confidential Information" means c.\n'
            '"small business" means d.'
        )
    )
    assert [each.term for each in Glossary(found).used_definitions(text)] == expected


LAW = dedent(
    """
    Part 2—Fees
    § 4.1 Amounts
    (a) Ten dollars.
    (1) In notes.
    (b) Other.
    § 4.2 Terms
    Article IV - Courts
    text
    Schedule A
    """
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see section 4.1", ["4.1"]),
        ("under § 4.1(a)(1) and § 4.2", ["4.1(a)(1)", "4.2"]),
        ("sections 4.1, 4.2 and 9.9", ["4.1", "4.2"]),
        # The deepest part that there is.
        ("clause 4.1(b)(7)", ["4.1(b)"]),
        ("Part 2, not Part 7", ["2"]),
        ("Part 4.1", []),
        ("section 4.10", []),
        ("article iv", ["IV"]),
        ("of Schedule A", ["A"]),
        ("the company's 4.2 million", []),
        ("4.1", []),
    ],
)
def test_references(text: str, expected: list[str]) -> None:
    found = split_sections(LAW, "us_legislative")
    contract = split_sections(LAW, "legal_contract")
    law = [found[index].number for index in References(found).referenced_sections(text, ())]
    deed = [contract[index].number for index in References(contract).referenced_sections(text, ())]
    assert expected in (law, deed)


def test_a_reference_within_a_section_and_to_itself() -> None:
    found = split_sections(LAW, "us_legislative")
    numbers = [section.number for section in found]
    within = numbers.index("4.1(a)(1)")
    assert [
        numbers[index] for index in References(found).referenced_sections("subsection (b) of section 4.1", [within])
    ] == ["4.1(b)"]
    # What it is in itself is no reference.
    assert References(found).referenced_sections("section 4.1(a), Part 2", [within]) == ()


def noted(text: str, domain: Domain = "none", *, defined: bool = True, referred: bool = True) -> dict[str, str]:
    found = make_document("law.md", dedent(text), ChunkRules(domain=domain))
    added = chunk_notes(found, with_definitions=defined, with_references=referred)
    return {chunk.id: note for chunk, note in zip(found.chunks, added, strict=True) if note}


RULES = """
    # Rules

    ## 1 Words

    "Token" means a string.

    ## 4 Access

    ### 4.1 Passwords

    A Token is like a password. See section 4.2, and section 1.

    ### 4.2 Tokens

    Short.
    """


def test_notes_of_chunks() -> None:
    assert noted(RULES) == {
        "law.md#4.1": 'Definitions:\n- "Token" means a string.\n'
        "Refers to:\n- Rules > 4 Access > 4.2 Tokens (law.md#4.2)\n- Rules > 1 Words (law.md#1)",
        "law.md#4.2": 'Definitions:\n- "Token" means a string.',
    }
    assert "Definitions" not in str(noted(RULES, defined=False))
    assert "Refers" not in str(noted(RULES, referred=False))
    assert noted(RULES, defined=False, referred=False) == {}
