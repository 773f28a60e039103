"""What leaks, or runs code it should not, with HoloDeck."""

from __future__ import annotations

from tests.commands.project import Project

PARIS = {"name": "capital", "input": "What is the capital of France?", "ground_truth": "Paris"}


def test_a_validation_error_shows_no_secret(project: Project) -> None:
    project.suite([PARIS], model={"provider": "azure_openai", "name": "gpt", "api_key": "${AZURE_KEY}"})
    finished = project.run("validate", AZURE_KEY="sk-very-secret")
    assert finished.code == 2
    assert "model.endpoint: is missing (required for provider azure_openai)" in finished.stderr
    assert "sk-very-secret" not in finished.stdout + finished.stderr


def test_results_hold_no_secret(project: Project) -> None:
    project.write("agent.py", "import os\n\ndef answer(messages):\n    return os.environ['SHOP_LOGIN']\n")
    server = {
        "type": "mcp",
        "name": "shop",
        "description": "Orders.",
        "command": "npx",
        "env": {"LOGIN": "${SHOP_LOGIN}"},
    }
    project.suite([PARIS], tools=[server])
    finished, record = project.evaluate("--target", "python:agent:answer", SHOP_LOGIN="pa55-w0rd-of-the-shop")
    assert finished.code == 1
    assert record.cases[0].trials[0].turns[0].response == "***"
    written = "".join(file.read_text() for file in project.out.iterdir())
    assert "pa55-w0rd" not in finished.stdout + finished.stderr + written


def test_a_variable_cannot_add_yaml(project: Project) -> None:
    project.suite([{**PARIS, "ground_truth": "${ANSWER}"}])
    project.answers([{"case": "capital", "response": 'Paris"\nexpected_tools: []'}])
    assert project.run("run", "--target", "recorded:answers.jsonl", ANSWER='Paris"\nexpected_tools: []').code == 0


def test_the_current_folder_supplies_no_metric(project: Project) -> None:
    for name in ("rouge", "meteor"):
        project.write(f"{name}/{name}.py", "raise SystemExit('ran code of the current folder')\n")
    metrics = [{"type": "standard", "metric": name, "threshold": 0.4} for name in ("rouge", "meteor")]
    project.suite([PARIS], metrics=metrics)
    project.answers([{"case": "capital", "response": "Paris"}])
    finished, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert finished.code == 0
    assert [found.score for found in record.cases[0].trials[0].turns[0].evaluations] == [1.0, 0.5]


def test_code_of_the_suite_does_not_see_the_job_token(project: Project) -> None:
    project.write(
        "agent.py", "import os\n\ndef answer(messages):\n    return os.environ.get('GITHUB_TOKEN', 'Paris')\n"
    )
    project.suite([PARIS])
    assert project.run("run", "--target", "python:agent:answer", GITHUB_TOKEN="ghs_secret").code == 0


def test_a_grader_cannot_end_the_run(project: Project) -> None:
    project.write("graders.py", "import os\n\n\ndef leaves(ctx):\n    os._exit(0)\n")
    grader = {"type": "code", "grader": "graders:leaves"}
    project.suite([{**PARIS, "name": "leaves", "evaluations": [grader]}, PARIS])
    project.answers([{"case": name, "response": "Paris"} for name in ("leaves", "capital")])
    finished, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert finished.code == 3
    error = record.cases[0].trials[0].turns[0].evaluations[0].error
    assert error is not None
    assert error.code == "crashed"
    assert record.cases[1].trials[0].turns[0].evaluations[0].score == 1.0
