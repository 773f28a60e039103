"""`${VAR}` in values, secrets in messages, and .env files."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.errors import SuiteError
from holodeck_action.suite.model.providers import ProviderName
from holodeck_action.suite.yaml.reading import read_yaml
from holodeck_action.suite.yaml.variables import load_environment
from holodeck_action.text.foreign import Foreign
from holodeck_action.text.given_paths import GivenPath
from tests.suite.folders import CASE, EQUALITY, HEAD, complaints, load
from tests.tables import walk

SECRET = "hunter2-swordfish"


@pytest.mark.proves("${VAR}, ${VAR:-default}, $${")
@walk(
    ("text", "value"),
    [
        ("${N}", 5),
        ("'${N}'", "5"),
        ('"${N}"', "5"),
        ("x${N}", "x5"),
        ("${N}.${N}", 5.5),
        ("${YES}", True),
        ("'${YES}'", "yes"),
        ("${EMPTY}", None),
        ("'${EMPTY}'", ""),
        ("${NOPE:-fallback}", "fallback"),
        ("${NOPE:-}", None),
        ("${NOPE:-7}", 7),
        ("${EMPTY:-fallback}", "fallback"),
        ("${N:-fallback}", 5),
        ("$${N}", "${N}"),
        ("$$${N}", "$${N}"),
        ("$N", "$N"),
        ("${1N}", "${1N}"),
        ("${}", "${}"),
        ("$", "$"),
        ("|\n  a ${N}\n  b", "a 5\nb\n"),
        ("'${HOSTILE}'", "a: b\n# '\"\n- c"),
        ("${HOSTILE}", "a: b\n# '\"\n- c"),
        ("${REF}", "${N}"),
    ],
)
def test_substitution(text: str, value: object) -> None:
    environ = {"N": "5", "YES": "yes", "EMPTY": "", "HOSTILE": "a: b\n# '\"\n- c", "REF": "${N}"}
    document = read_yaml(Foreign(f"x: {text}\n".encode()), file="f.yaml", environ=environ)
    assert not document.problems
    assert document.root == {"x": value}
    assert type(document.root["x"]) is type(value)


@given(st.text(st.characters(blacklist_categories=["Cs"]), max_size=20))
def test_a_value_cannot_inject_yaml(value: str) -> None:
    document = read_yaml(Foreign(b"x: ['${V}', 1]\ny: 2\n"), file="f.yaml", environ={"V": value})
    assert document.root == {"x": [value, 1], "y": 2}


def at(folder: Path) -> Checkout:
    return Checkout.of(folder, folder)


def test_keys_and_comments_are_not_substituted() -> None:
    document = read_yaml(Foreign(b"# ${NOPE}\n${NOPE}: 1 # ${NOPE}\n"), file="f.yaml", environ={})
    assert not document.problems
    assert document.root == {"${NOPE}": 1}


def test_every_unset_variable_is_named_with_its_line(tmp_path: Path) -> None:
    description = "description: '${ONE} ${TWO}'\n"
    agent = f"{HEAD}{description}{EQUALITY}test_cases:\n- input: ${{THREE}}\n  ground_truth: ${{FOUR}}\n"
    assert complaints(tmp_path, agent) == [
        f"agent.yaml:{place}: {field}: the variable {name} is not set: set it, or write ${{{name}:-default}}"
        for place, field, name in [
            ("4:14", "description", "ONE"),
            ("4:14", "description", "TWO"),
            ("7:10", "test_cases[0].input", "THREE"),
            ("8:17", "test_cases[0].ground_truth", "FOUR"),
        ]
    ]


def test_substituted_values_are_known_as_secrets_and_defaults_are_not(tmp_path: Path) -> None:
    agent = (
        "name: ${NAME:-agent}\nmodel: {provider: openai, name: m, api_key: '${KEY}'}\ninstructions: {inline: hi}\n"
        "test_cases: [{input: a, expected_tools: []}]\n"
    )
    config = "vectorstores: {db: {provider: qdrant, connection_string: literal-secret}}\n"
    policy = "secrets: ['${TOKEN}', 123]\n"
    suite = load(
        tmp_path,
        agent,
        {"config.yaml": config, "holodeck-action.yaml": policy},
        environ={"KEY": SECRET, "TOKEN": "tok"},
    )
    assert suite.name == "agent"
    assert suite.secrets == {SECRET, "literal-secret", "tok", "123"}
    assert suite.agent.model.api_key is not None
    assert suite.agent.model.api_key.get_secret_value() == SECRET
    assert SECRET not in repr(suite)


@walk(
    "block",
    [
        "model: {provider: '${SECRET}', name: m}",
        "model: {provider: openai, name: m, temperature: '${SECRET}'}",
        "model: {provider: openai, name: m, max_tokens: ${SECRET}}".replace("${SECRET}", "'${SECRET}'"),
        "model: {provider: azure_openai, name: m, api_key: '${SECRET}'}",
        "model: {provider: openai, name: m, api_key: ['${SECRET}']}",
        "model: '${SECRET}'",
        "evaluations: {metrics: [{type: standard, metric: '${SECRET}'}]}",
        "evaluations: {metrics: [{type: '${SECRET}'}]}",
        "evaluations: {metrics: ['${SECRET}']}",
        "evaluations: {metrics: [{type: code, grader: '${SECRET}'}]}",
        "execution: {llm_timeout: '${SECRET}'}",
        "tools: [{type: mcp, name: '${SECRET}', description: '-', command: npx}]",
        "tools: [{type: mcp, name: m, description: d, transport: http, url: '${SECRET}'}]",
        "test_cases: [{input: a, name: '${SECRET}', count: 1}]",
        "test_cases: [{input: a, expected_tools: [{name: f, args: {a: {regex: '(${SECRET}'}}}]}]",
        "test_cases_file: '${SECRET}'",
        "instructions: {file: '${SECRET}'}",
    ],
)
def test_a_substituted_value_is_never_shown(tmp_path: Path, block: str) -> None:
    blocks = {
        "name": "name: a",
        "model": "model: {provider: openai, name: m}",
        "instructions": "instructions: {inline: hi}",
        "test_cases": "test_cases: [{input: a, expected_tools: []}]",
    }
    key = block.partition(":")[0]
    blocks["test_cases" if key == "test_cases_file" else key] = block
    found = complaints(tmp_path, "\n".join(blocks.values()), environ={"SECRET": SECRET})
    assert found
    assert SECRET not in "\n".join(found)
    assert "swordfish" not in "\n".join(found)


@pytest.mark.parametrize(
    ("number", "block", "expected"),
    [
        (
            "7",
            "model: {provider: openai, name: m, temperature: '${NUMBER}'}",
            "agent.yaml:1:49: model.temperature: the value is out of range (allowed: 0 to 2)",
        ),
        (
            "openia",
            "model: {provider: '${NUMBER}', name: m}",
            "agent.yaml:1:19: model.provider: is not one of the allowed values (allowed: "
            f"{', '.join(get_args(ProviderName))})",
        ),
    ],
)
def test_the_sentence_without_the_value(tmp_path: Path, number: str, block: str, expected: str) -> None:
    agent = f"{block}\nname: a\ninstructions: {{inline: hi}}\n{CASE}{EQUALITY}"
    assert complaints(tmp_path, agent, environ={"NUMBER": number}) == [expected]


def test_literal_secrets_are_never_shown(tmp_path: Path) -> None:
    agent = (
        "name: a\nmodel: {provider: azure_openai, name: m, api_key: hunter2, apikey: hunter2}\n"
        "instructions: {inline: hi}\n"
        "tools: [{type: mcp, name: m, description: d, command: npx, env: {A: [hunter2]}, headers: {B: {c: hunter2}}}]\n"
        "test_cases: [{input: a, expected_tools: []}]\n"
    )
    assert complaints(tmp_path, agent) == [
        'agent.yaml:2:60: model.apikey: unknown key, did you mean "api_key"? (allowed: api_key, api_version, '
        "auth_provider, endpoint, max_tokens, name, provider, temperature, top_p)",
        "agent.yaml:4:69: tools[0].env.A: must be text",
        "agent.yaml:4:94: tools[0].headers.B: must be text",
    ]


@pytest.mark.parametrize(
    ("block", "policy", "expected"),
    [
        (
            "tools: [{type: prompt, name: '${S}', description: d, template: t, parameters: {a: 1}}, "
            "{type: prompt, name: '${S}', description: d, template: t, parameters: {a: 1}}]",
            "",
            'agent.yaml:5:109: tools[1].name: "***" is already the name of tools[0]: tool names must be unique',
        ),
        (
            "author: x",
            "quarantine: [{case: '${S}', reason: r, owner: o, expires: 2027-01-31}]",
            'holodeck-action.yaml:1:21: quarantine[0].case: "***" is not a case of this suite (allowed: '
            '"case-81f68a83abe4")',
        ),
        (
            "author: x",
            "quarantine: [{case: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa${S}', reason: r, owner: o, "
            "expires: 2027-01-31}]",
            'holodeck-action.yaml:1:21: quarantine[0].case: "***" is not a case of this suite (allowed: '
            '"case-81f68a83abe4")',
        ),
    ],
)
def test_messages_about_several_places_quote_no_secret(tmp_path: Path, block: str, policy: str, expected: str) -> None:
    agent = f"{HEAD}test_cases: [{{input: a, expected_tools: []}}]\n{block}\n"
    found = complaints(tmp_path, agent, {"holodeck-action.yaml": policy}, environ={"S": "hunter2_swordfish"})
    assert found == [expected]


def test_messages_stay_on_one_line_and_move_no_cursor(tmp_path: Path) -> None:
    hostile = '"a\\n::error::x\\e[2J\\u202e"'
    agent = (
        f"{HEAD}test_cases_file: {hostile}\nclaude: {{effort: {hostile}, {hostile}: 1}}\nauthor: !<!a%0A::error> x\n"
    )
    found = complaints(tmp_path, agent)
    assert len(found) == 4
    assert all(line.isprintable() and line.startswith("agent.yaml:") for line in found)
    assert found[0] == (
        "agent.yaml:4:18: test_cases_file: a\\n::error::x\\x1b[2J\\u202e does not exist (allowed: a path relative to "
        "agent.yaml)"
    )


ENV = """\
# comment
PLAIN=value
export EXPORTED = spaced value   # comment
SINGLE='a # b $X'
DOUBLE="line\\nbreak \\"quoted\\""
EMPTY=
HASH=a#b
TAKEN=from file
"""


def test_env_file_syntax(tmp_path: Path) -> None:
    file = tmp_path / "some.env"
    file.write_text(ENV)
    found = load_environment(
        at(tmp_path / "elsewhere"),
        {"TAKEN": "from process", "CI": "true"},
        env_file=GivenPath(file, tmp_path),
    )
    assert found.variables == {
        "PLAIN": "value",
        "EXPORTED": "spaced value",
        "SINGLE": "a # b $X",
        "DOUBLE": 'line\nbreak "quoted"',
        "EMPTY": "",
        "HASH": "a#b",
        "TAKEN": "from process",
        "CI": "true",
    }
    assert found.notices == (f"{file}: read 7 variables; variables that are already set take precedence",)


@pytest.mark.proves(".env beside agent.yaml")
def test_the_env_file_beside_agent_yaml_is_read_except_in_ci(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\n")
    found = load_environment(at(tmp_path), {"HOME": "/"})
    assert found.variables == {"A": "1", "HOME": "/"}
    assert found.notices == (".env: read 1 variable; variables that are already set take precedence",)
    for value in ("true", "1", "yes"):
        quiet = load_environment(at(tmp_path), {"CI": value})
        assert quiet.variables == {"CI": value}
        assert quiet.notices == ()
    assert load_environment(at(tmp_path), {"CI": "false"}).notices
    assert load_environment(at(tmp_path / "other"), {}).variables == {}


def test_a_given_env_file_replaces_the_one_beside_agent_yaml(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\n")
    (tmp_path / "b.env").write_text("B=2\n")
    assert load_environment(at(tmp_path), {}, env_file=GivenPath(Path("b.env"), tmp_path)).variables == {"B": "2"}


def test_broken_env_files_do_not_show_their_lines(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("A=1\nhunter2\nB='hunter2\n")
    with pytest.raises(SuiteError) as raised:
        load_environment(at(tmp_path), {})
    assert str(raised.value).splitlines() == [
        ".env:2:1: is not an assignment (allowed: KEY=VALUE, export KEY=VALUE, # comment)",
        ".env:3:1: is not an assignment (allowed: KEY=VALUE, export KEY=VALUE, # comment)",
    ]
    with pytest.raises(SuiteError) as raised:
        load_environment(at(tmp_path), {}, env_file=GivenPath(Path("missing.env"), tmp_path))
    assert str(raised.value) == "missing.env: cannot be read: No such file or directory"
    file.write_bytes(b"A=\xff\n")
    with pytest.raises(SuiteError) as raised:
        load_environment(at(tmp_path), {})
    assert str(raised.value) == ".env: cannot be read: it is not UTF-8 text (line 1)"
