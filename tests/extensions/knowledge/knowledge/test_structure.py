"""Sections of documents of every domain, on texts as such documents have them."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.extensions.knowledge.headings import Domain
from holodeck_action.extensions.knowledge.structure import Section, split_sections

DOMAINS: tuple[Domain, ...] = ("none", "us_legislative", "au_legislative", "academic", "technical", "legal_contract")


def read(text: str, domain: Domain = "none", depth: int | None = None) -> tuple[Section, ...]:
    return split_sections(dedent(text).lstrip("\n"), domain, depth)


def titles(text: str, domain: Domain = "none", depth: int | None = None) -> list[str]:
    return [section.title for section in read(text, domain, depth)]


HANDBOOK = """
    ---
    title: Rules
    ---
    Before all headings.

    # Handbook

    Welcome.

    ## 4 Access ##

    ### **4.2 Passwords**

    Changed every 90 days.

    ```sh
    # not a heading
    ```

    Backups
    -------

    Every night.
    """


def test_markdown() -> None:
    found = read(HANDBOOK)
    assert [section.title for section in found] == [
        "",
        "Handbook",
        "Handbook > 4 Access",
        "Handbook > 4 Access > 4.2 Passwords",
        "Handbook > Backups",
    ]
    assert [section.number for section in found] == ["", "", "4", "4.2", ""]
    assert [section.parent for section in found] == [None, None, 1, 2, 1]
    assert found[0].text == "---\ntitle: Rules\n---\nBefore all headings."
    assert found[3].text == "\nChanged every 90 days.\n\n```sh\n# not a heading\n```".lstrip("\n")
    assert found[4].text == "Every night."


@pytest.mark.parametrize(
    "line", ["#no blank", "####### seven", "#", "    # code", "text # with a mark", "| # | cell |"]
)
def test_what_is_no_heading_of_markdown(line: str) -> None:
    assert [section.title for section in split_sections(f"one\n{line}\ntwo")] == [""]


def test_united_states_code() -> None:
    found = read(
        """
        TITLE I—GENERAL PROVISIONS

        PART 1—DEFINITIONS

        § 1.1 Definitions.
        In this part, "operator" means any person who runs a reactor.
        § 1.2 Records. Every operator shall keep records of the following matters and send them to the office each year:
        (a) Inspections, including—
        (1) the date; and
        (2) the inspector:
        (A) name;
        (B) badge.
        (b) Repairs.
        (h) Fires.
        (i) Floods.
        Section 1.3 of this title applies to them.
        § 1.4(a) Fines are due at once.
        (b) They are not refunded.
        """,
        "us_legislative",
    )
    assert [(section.label, section.number) for section in found] == [
        ("TITLE I—GENERAL PROVISIONS", "I"),
        ("PART 1—DEFINITIONS", "1"),
        ("§ 1.1 Definitions.", "1.1"),
        ("§ 1.2", "1.2"),
        ("(a)", "1.2(a)"),
        ("(1)", "1.2(a)(1)"),
        ("(2)", "1.2(a)(2)"),
        ("(A)", "1.2(a)(2)(A)"),
        ("(B)", "1.2(a)(2)(B)"),
        ("(b)", "1.2(b)"),
        ("(h)", "1.2(h)"),
        # A letter after h, not the Roman number one.
        ("(i)", "1.2(i)"),
        ("§ 1.4", "1.4"),
        ("(a)", "1.4(a)"),
        ("(b)", "1.4(b)"),
    ]
    assert found[7].title == (
        "TITLE I—GENERAL PROVISIONS > PART 1—DEFINITIONS > § 1.2 Records > (a) Inspections, including— > "
        "(2) the inspector: > (A)"
    )
    assert found[3].text.startswith("Records. Every operator shall keep")
    assert found[11].text == "Floods.\nSection 1.3 of this title applies to them."
    assert found[13].text == "Fines are due at once."


def test_roman_numbers_below_a_letter() -> None:
    found = read(
        "§ 9 Heading\n(a) one\n(1) two\n(A) three\n(i) four\n(ii) five\n(I) six\n(II) seven\n(b) eight",
        "us_legislative",
    )
    assert [section.number for section in found[1:]] == [
        *("9(a)", "9(a)(1)", "9(a)(1)(A)", "9(a)(1)(A)(i)", "9(a)(1)(A)(ii)"),
        *("9(a)(1)(A)(ii)(I)", "9(a)(1)(A)(ii)(II)", "9(b)"),
    ]


def test_australian_acts() -> None:
    found = read(
        """
        Part 2—Registration
        Division 1—Applications

        12 Who may apply
         (1) A person may apply if:
          (a) the person is an adult; and
          (b) the person:
           (i) lives here; or
           (ii) works here.
         (2) Part 3 does not apply.

        12A Fees
        The fee is 10 dollars.
        13 people were counted.
        Schedule 1—Forms
        """,
        "au_legislative",
    )
    assert [(section.kind, section.number) for section in found] == [
        *(("part", "2"), ("division", "1"), ("section", "12"), ("item", "12(1)"), ("item", "12(1)(a)")),
        *(("item", "12(1)(b)"), ("item", "12(1)(b)(i)"), ("item", "12(1)(b)(ii)"), ("item", "12(2)")),
        *(("section", "12A"), ("schedule", "1")),
    ]
    assert found[8].text == "Part 3 does not apply."
    assert found[9].text == "The fee is 10 dollars.\n13 people were counted."
    assert found[4].title == (
        "Part 2—Registration > Division 1—Applications > 12 Who may apply > (1) A person may apply if: > (a)"
    )


def test_contracts() -> None:
    found = read(
        """
        RECITALS

        Both parties agree.

        ARTICLE IV - PAYMENT
        4.1 Fees. The Customer shall pay the fees set out in Schedule A within thirty days.
        (a) in euros; or
        (b) in dollars.
        4.2 Late Payment
        Interest applies from day 31.
        Schedule A
        Fees: 100
        """,
        "legal_contract",
    )
    assert [(section.title, section.number) for section in found] == [
        ("RECITALS", ""),
        ("ARTICLE IV - PAYMENT", "IV"),
        ("ARTICLE IV - PAYMENT > 4.1", "4.1"),
        ("ARTICLE IV - PAYMENT > 4.1 Fees > (a)", "4.1(a)"),
        ("ARTICLE IV - PAYMENT > 4.1 Fees > (b)", "4.1(b)"),
        ("ARTICLE IV - PAYMENT > 4.2 Late Payment", "4.2"),
        ("Schedule A", "A"),
    ]


def test_papers() -> None:
    paper = """
        Abstract

        We study pumps.

        I. Introduction

        Pumps pump.

        II. Methods

        A. Data

        Ten pumps.

        B. Model

        One model.

        III. Results

        They pump.

        References

        [1] Nobody.
        """
    assert titles(paper, "academic") == [
        *("Abstract", "I. Introduction", "II. Methods", "II. Methods > A. Data", "II. Methods > B. Model"),
        *("III. Results", "References"),
    ]
    assert titles("1 Introduction\n\ntext\n\n2.1 Data sets\n\ntext", "academic")[-1] == "1 Introduction > 2.1 Data sets"


def test_manuals() -> None:
    manual = """
        1. Overview

        The pump.

        1.1 Mounting

        1. Do this
        2. Then that.

        2. Service
        2.1 is the number of the part.

        Appendix A: Torque
        text
        """
    assert titles(manual, "technical") == [
        *("1. Overview", "1. Overview > 1.1 Mounting", "2. Service", "Appendix A: Torque")
    ]


@pytest.mark.parametrize("domain", DOMAINS)
def test_markdown_counts_in_every_domain(domain: Domain) -> None:
    assert titles("# One\n\ntext\n\n## Two\n\ntext", domain) == ["One", "One > Two"]


@pytest.mark.parametrize(
    ("domain", "line"),
    [
        ("none", "§ 1.2 Records"),
        ("technical", "(a) Records"),
        ("us_legislative", "Part 2 of this Act applies."),
        ("us_legislative", "§ 12 applies."),
        ("au_legislative", "12 people live there"),
        ("legal_contract", "Section 4.2 shall survive."),
        ("academic", "results were good"),
    ],
)
def test_sentences_are_no_headings(domain: Domain, line: str) -> None:
    assert titles(f"text\n\n{line}\n", domain) == [""]


def test_depth_leaves_deeper_headings_in_the_text() -> None:
    text = "# One\n\n## Two\n\n### Three\n\ndeep"
    assert titles(text, depth=2) == ["One", "One > Two"]
    assert split_sections(text, "none", 2)[1].text == "### Three\n\ndeep"
    assert titles("§ 1 Records\n(a) one\n(1) two", "us_legislative", 2) == ["§ 1 Records", "§ 1 Records > (a)"]


def test_a_heading_as_long_as_a_text_is_cut_in_paths_and_kept_in_the_text() -> None:
    long = " ".join(f"word{number}" for number in range(60))
    outer, inner = read(f"# {long}\n\n## Inner\n\ntext")
    assert inner.path[0].endswith("…")
    assert len(inner.path[0]) < 150
    assert outer.text == long


LINES = st.sampled_from(
    [
        "# A",
        "## B 1",
        "text",
        "",
        "§ 1.2 Records",
        "(a) one",
        "(1) two",
        "(i) x",
        "Part 2—More",
        "4.2 Terms",
        "```",
        "===",
    ]
)


@given(st.lists(LINES | st.text(max_size=30), max_size=25).map("\n".join), st.sampled_from(DOMAINS))
def test_every_word_is_in_a_section(text: str, domain: Domain) -> None:
    found = split_sections(text, domain)
    said = " ".join(f"{section.title} {section.text}" for section in found)
    for word in text.split():
        bare = word.strip("#=-*_")
        assert bare in said
    assert all(section.parent is None or section.parent < place for place, section in enumerate(found))
    assert [section.start for section in found] == sorted(section.start for section in found)
