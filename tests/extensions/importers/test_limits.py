"""No imported file holds up the command: what takes too long has no equal, and the rest is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.extensions.importers.conversion import Conversion, convert_in_process
from holodeck_action.extensions.importers.deepeval.recording import record_file
from holodeck_action.extensions.importers.source import Source
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.workers.permission import LOCAL_ORIGIN, CodeAllowed
from tests.commands.project import Project
from tests.extensions.importers.accounts import account
from tests.extensions.importers.test_promptfoo import verdicts

GOOD = {"description": "good", "vars": {"q": "hello"}, "assert": [{"type": "contains", "value": "hello"}]}
LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
SLOW = "the template is not rendered: it took longer than 5 s; make it simpler"
LARGE = "the template needs more memory than is allowed; make it smaller"
FIBONACCI = "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}"
DOUBLED = "{% set x = 'ab' %}" + "{% set x = x ~ x %}" * 40 + "{{ x }}"


def imported(project: Project, tests: list[Any], code: int = 1, **more: Any) -> list[dict[str, Any]]:
    """Import a configuration with these tests, one a line and the first on line 2, beside one that is good."""
    lines = ",\n".join(json.dumps(each) for each in (*tests, GOOD))
    rest = json.dumps({"prompts": ["{{q}}"], "providers": ["echo"], **more})
    project.write("c.yaml", f'{{"tests": [\n{lines}],\n{rest[1:]}')
    finished = project.run("import", "promptfoo", "c.yaml", "-o", "new", "--report", "new/account.json")
    assert finished.code == code, finished.stdout + finished.stderr
    return account(project, "new")


def asking(text: str) -> dict[str, Any]:
    return {"vars": {"q": text}, "assert": [{"type": "contains", "value": "x"}]}


def asserting(**assertion: Any) -> dict[str, Any]:
    return {"vars": {"q": "hello"}, "assert": [assertion]}


TEMPLATES = {
    LOOPS: SLOW,
    "{{ 'a' * 2 * 10 ** 9 }}": LARGE,
    "{{ '%02999999999d' | format(1) }}": LARGE,
    "{{ 'a' | center(2999999999) }}": LARGE,
    DOUBLED: LARGE,
    "{{ 'a' * 20000000 }}": "the template gives more than 16,000,000 characters",
    "{{ 1 / 0 }}": "the template cannot be rendered: division by zero",
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}": "the template cannot be rendered: ",
    "{{ '\\ud800' }}": "the template gives a text that holds half of a character (a lone surrogate)",
    "{{ env['not a name'] }}": "there is no environment variable 'not a name'",
}


@pytest.mark.full
def test_a_template_without_an_end_has_no_equal(project: Project) -> None:
    tests = [{"description": f"bad {number}", **asking(text)} for number, text in enumerate(TEMPLATES)]
    # The slow one again: it is not rendered a second time, so it is told in each place, and in time.
    slow = [{"type": "contains", "value": LOOPS}, {"type": "python", "value": LOOPS}]
    again = [{"description": f"again {number}", "vars": {"q": str(number)}, "assert": slow} for number in range(30)]
    rows = imported(project, [*tests, *again])
    refused = [(row["line"], row["source"], row["note"]) for row in rows if row["outcome"] == "missing"]
    first = {line: (source, note) for line, source, note in refused if line < 2 + len(tests)}
    for (line, (source, note)), reason in zip(sorted(first.items()), TEMPLATES.values(), strict=True):
        assert (source, reason in note) == ("vars", True), (line, note)
    rest = [(line, source) for line, source, note in refused if line >= 2 + len(tests) and SLOW in note]
    lines = range(2 + len(tests), 2 + len(tests) + len(again))
    assert sorted(rest) == [(line, source) for line in lines for source in ("contains", "python")]
    # Nothing of them passes, and the other case is what it was.
    found = verdicts(project, "new", code=1)
    assert found.pop("good") == "passed"
    assert set(found.values()) == {"failed"}


@pytest.mark.full
def test_templates_are_slow_together_only_so_long(tmp_path: Path) -> None:
    """In a process of its own: time is measured with the signal that ends our tests, too."""
    code = f"""
from holodeck_action.extensions.importers.promptfoo.templates import Templates
from holodeck_action.extensions.importers.source import UnfitError
alone, together = Templates(seconds=0.2, all_seconds=600), Templates(seconds=600, all_seconds=0.3)
for templates, text in [(alone, {LOOPS!r}), (alone, {FIBONACCI!r}), (together, {LOOPS!r}), (together, {FIBONACCI!r})]:
    try:
        templates.render(text, {{}})
    except UnfitError as error:
        print(error)
print(together.render("no template", {{}}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    assert lines == [
        *["the template is not rendered: it took longer than 0.2 s; make it simpler"] * 2,
        "the template is not rendered: it took longer than 0.3 s; make it simpler",
        "the templates of the file take too long in total; make them simpler",
        "no template",
    ]


ENDLESS: list[tuple[Any, str]] = [
    ({**asking("x"), "providers": ["*a" * 30 + "*b"]}, "none of these is known"),
    (asserting(type="python", value="-" * 300_000 + "1"), "its code is not Python"),
    (asserting(type="is-json", value="[" * 500), "is nested more than 100 levels deep"),
    (asserting(type="is-json", value="{a: 1e999}"), "its schema holds inf, which is not a JSON number"),
    (asserting(type="is-json", value="{a: 0x" + "f" * 4000 + "}"), "its schema holds a number of more than"),
    (asking("file:///**/*.txt"), "is outside the checkout"),
    (asking("file:///proc/**/x.txt"), "is outside the checkout"),
    ({"vars": {name: ["x"] * 50 for name in "abc"}, "assert": []}, "combinations, more than 100,000"),
]


@pytest.mark.full
def test_what_would_not_end_is_told(project: Project) -> None:
    project.write("self.yaml", "- file://self.yaml\n- file://self.yaml\n")
    providers = [{"id": "echo", "label": "a" * 3000}]
    circular = [{"vars": {"q": "x"}, "assert": ["file://self.yaml"]}, "file://self.yaml"]
    rows = imported(project, [*(test for test, _ in ENDLESS), *circular], providers=providers)
    missing = [row for row in rows if row["outcome"] == "missing"]
    for line, (_, reason) in enumerate(ENDLESS, 2):
        notes = [row["note"] for row in missing if (row["file"], row["line"]) == ("c.yaml", line)]
        assert any(reason in note for note in notes), (reason, notes)
    # Each item of the file is told once as an assertion, and once as a case.
    reason = "is included by files that include each other"
    places = [(row["line"], row["source"]) for row in missing if row["file"] == "self.yaml" and reason in row["note"]]
    assert sorted(places) == [(line, source) for line in (1, 2) for source in ("file://self.yaml", "tests")]


@pytest.mark.full
def test_a_list_of_texts_that_is_not_closed_is_told_in_time(project: Project) -> None:
    rows = imported(project, [asserting(type="contains-any", value='"' + "\\\\" * 60)], code=0)
    assert any("a quote in the list of texts is not closed" in row["note"] for row in rows)


def fan(kind: str, leaf: str) -> dict[str, str]:
    """Files, each of which names the next one twice."""
    return {**{f"{kind}{at}.yaml": f"- file://{kind}{at + 1}.yaml\n" * 2 for at in range(18)}, f"{kind}18.yaml": leaf}


@pytest.mark.full
@pytest.mark.parametrize(
    ("configuration", "reason"),
    [
        ({"tests": "file://t0.yaml"}, "its files include others more than 100,000 times; write their content out"),
        ({"tests": [{"vars": {"q": "x"}, "assert": ["file://a0.yaml"]}]}, "its files include others more than 100,000"),
        ({"tests": [{"vars": {"a": ["1"] * 300, "b": ["1"] * 300}}] * 2}, "has more than 100,000 cases; split it"),
        (
            {"prompts": ["{{a}}", "b"], "tests": [{"vars": {"a": ["1"] * 300, "b": ["1"] * 300}}]},
            "has more than 100,000 cases for the provider echo; split it",
        ),
    ],
)
def test_too_many_cases_are_refused(configuration: dict[str, Any], reason: str, project: Project) -> None:
    for name, text in {**fan("t", "- {vars: {q: x}}\n"), **fan("a", "- {type: contains, value: x}\n")}.items():
        project.write(name, text)
    project.write("c.yaml", json.dumps({"prompts": ["{{q}}"], "providers": ["echo"], **configuration}))
    finished = project.run("import", "promptfoo", "c.yaml", "-o", "new")
    assert (finished.code, finished.stdout) == (2, "")
    assert finished.errors[0].startswith(f"c.yaml: {reason}")
    assert not (project.folder / "new").exists()


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "content", "code", "reason"),
    [
        ("t.py", "x = " + "-" * 100_000 + "1\n", 2, "t.py:1:1: is not Python: it is nested too deeply, or too large"),
        ("t.csv", "input,name\n" + "x" * 200_000 + ",y\n", 2, "t.csv:1:1: is not CSV: field larger than field limit"),
        ("t.json", '[{"input": "x", "name": ' + "[" * 5000, 2, "is nested more than 100 levels deep"),
        ("t.csv", 'input,tools_called\nx,"' + "[" * 100_000 + '"\n', 1, "a golden has no metrics"),
    ],
    ids=["signs", "field", "lists", "cell"],
)
def test_a_file_of_deepeval_that_is_too_deep_is_refused(
    name: str, content: str, code: int, reason: str, project: Project
) -> None:
    project.write(name, content)
    finished = project.run("import", "deepeval", name, "-o", "new")
    assert finished.code == code
    assert reason in finished.stdout + finished.stderr


CASE = "LLMTestCase(input='x', actual_output='y')"
METRICS = "[PatternMatchMetric(pattern='y')]"
CODES = {
    "doubled": (
        f"a0 = [{CASE}]\n{''.join(f'a{at + 1} = [*a{at}, *a{at}]{chr(10)}' for at in range(60))}"
        f"evaluate(a60, {METRICS})",
        "it is known only at run time",
    ),
    "wide": (
        f"a = [{CASE}]\nb = [{'*a, ' * 999}]\nc = [{'*b, ' * 999}]\nevaluate(c, {METRICS})",
        "it checks more than 100,000 cases; split it",
    ),
    "texts": (
        f"a = 'abcdefghij'\nb = f'{'{a}' * 1000}'\nc = f'{'{b}' * 1000}'\nd = f'{'{c}' * 1000}'\n"
        f"assert_test(LLMTestCase(input=d, actual_output='y'), {METRICS})",
        "its input is known only at run time",
    ),
    "sets": (
        f"assert_test(LLMTestCase(input='x', actual_output={{1, 2}}), {METRICS})",
        "its actual_output is known only at run time",
    ),
    "surrogates": (
        f"assert_test(LLMTestCase(input='\\ud800', actual_output='y'), {METRICS})",
        "holds half of a character",
    ),
    "lines": ("x = 1\n" * 60_000 + f"assert_test({CASE}, {METRICS})", "1 assertion: 1 as graders"),
}


@pytest.mark.full
@pytest.mark.parametrize("name", CODES)
def test_code_that_would_compute_long_has_no_equal(name: str, project: Project) -> None:
    code, reason = CODES[name]
    project.write("t.py", f"from deepeval import *\n{code}\n")
    finished = project.run("import", "deepeval", "t.py", "-o", "new")
    assert (finished.code, reason in finished.stdout) == (0 if name == "lines" else 1, True), finished.stdout


@pytest.mark.full
def test_a_test_file_that_runs_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("while True: pass\n")
    allowed = CodeAllowed(LOCAL_ORIGIN)
    with pytest.raises(ConfigurationError, match=r"t\.py: running it took longer than 1 s; import a file that ends"):
        record_file(Source(tmp_path / "t.py", "t.py", tmp_path), {}, allowed, seconds=1)


@pytest.mark.full
def test_an_import_has_a_deadline(tmp_path: Path) -> None:
    """Whatever a file makes it compute: here data that aliases repeat in every assertion."""
    items = ",".join(["1"] * 9000)
    tests = ",".join(
        "{vars: {q: x, z: *a}, assert: [{type: javascript, value: 'true', config: *a}]}" for _ in range(50)
    )
    (tmp_path / "c.yaml").write_text(f"prompts: ['{{{{q}}}}']\nproviders: [echo]\nx: &a [{items}]\ntests: [{tests}]\n")
    asked = Conversion("promptfoo", str(tmp_path / "c.yaml"), "c.yaml", str(tmp_path / "new"), str(tmp_path), False)
    with pytest.raises(ConfigurationError, match=r"c\.yaml: the import took longer than 0\.3 s; make it simpler"):
        convert_in_process(asked, {}, seconds=0.3)


@pytest.mark.full
def test_an_import_has_limited_memory(project: Project) -> None:
    # A character outside of ASCII makes each of them four bytes, and each case has a text of its own.
    project.write("prompt.md", "😀" + "a" * 19_000_000)
    project.write("c.yaml", json.dumps({"prompts": ["file://prompt.md"], "providers": ["echo"], "tests": [GOOD] * 40}))
    finished = project.run("import", "promptfoo", "c.yaml", "-o", "new")
    assert (finished.code, finished.stdout) == (2, "")
    assert finished.errors == ["c.yaml: the import needs more memory than is allowed; make it smaller"]


@pytest.mark.full
def test_nothing_of_a_file_is_read_in_our_own_process(project: Project) -> None:
    project.write("c.yaml", json.dumps({"prompts": ["{{q}} {{ 1 + 1 }}"], "providers": ["echo"], "tests": [GOOD]}))
    code = """
import sys
from holodeck_action.cli import main
from pathlib import Path
code = main(["import", "promptfoo", "c.yaml", "-o", "new"], {}, Path.cwd(), sys.stdin, sys.stdout, sys.stderr)
promptfoo = "holodeck_action.extensions.importers.promptfoo"
print(code, [name for name in sys.modules if name.startswith(("jinja2", promptfoo))])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=project.folder, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr
    assert "hello 2" in (project.folder / "new/agent.yaml").read_text()


@pytest.mark.full
def test_a_pattern_without_an_end_fails_its_case(project: Project) -> None:
    hopeless = {"description": "hopeless", **asking("a" * 60 + "!")}
    hopeless["assert"] = [{"type": "regex", "value": "^(a+)+$"}]
    imported(project, [hopeless], code=0)
    suite = project.folder / "new/agent.yaml"
    text = suite.read_text(encoding="utf-8").replace("_regex\n", "_regex\n      timeout_ms: 1000\n", 1)
    suite.write_text(text, encoding="utf-8")
    assert verdicts(project, "new", code=1) == {"hopeless": "failed", "good": "passed"}
