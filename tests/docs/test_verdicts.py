"""The scenarios of bench/verdicts are well-formed: docs/verdicts.md counts on it."""

from collections import Counter

from bench.verdicts.scenarios import JUDGE, read_scenarios

SCENARIOS = read_scenarios()


def test_five_scenarios_in_each_of_twelve_classes() -> None:
    assert len({each.id for each in SCENARIOS}) == 60
    assert set(Counter(each.kind for each in SCENARIOS).values()) == {5}
    assert len(Counter(each.kind for each in SCENARIOS)) == 12


def test_a_fifth_favours_another_program_by_a_named_feature() -> None:
    favoured = [each for each in SCENARIOS if each.favours]
    assert Counter(each.favours for each in favoured) == {"promptfoo": 4, "deepeval": 4, "inspect": 4}
    assert all(each.feature for each in favoured)


def test_each_has_one_sentence_for_what_happens_and_one_why_its_verdict_is_right() -> None:
    for each in SCENARIOS:
        for sentence in (each.does, each.why):
            assert sentence.endswith("."), each.id
            assert ". " not in sentence, each.id


def test_each_case_has_checks_that_name_one_kind_and_faults_name_cases() -> None:
    for each in SCENARIOS:
        names = {case.name for case in each.cases}
        assert names, each.id
        assert all(check.kind for case in each.cases for check in case.checks), each.id
        for fault in (*each.fault, *(each.base.fault if each.base else ())):
            case = fault.removeprefix(f"{JUDGE}/").partition("#")[0]
            assert case in names | {JUDGE, each.change.add}, each.id


def test_only_green_scenarios_lack_a_fault() -> None:
    for each in SCENARIOS:
        if each.right != "green":
            assert each.control() != each, each.id
