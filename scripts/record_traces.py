"""Records traces of agent frameworks with a scripted model server on this machine.

    python -m scripts.record_traces [langgraph openai_agents pydantic_ai crewai]

The agents are those of `examples/frameworks`. Each framework runs in a new environment, which is installed from the
package index. Its spans are written by its own instrumentation, or by that of OpenInference, and by OpenTelemetry's
exporter to files. The answers are no model's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from tests.llm.models import KEY, Answer, Fault, Request, ToolCall, serve_models
from tests.llm.models.values import Reply
from tests.targets.shop_model import shop_answer
from tests.workers.installing import uv

ROOT = Path(__file__).parents[1]
RECORDINGS = ROOT / "tests" / "extensions" / "traces" / "recordings"
PACKAGES = {
    "langgraph": ("openinference-instrumentation-langchain==0.1.80",),
    "openai_agents": ("openinference-instrumentation-openai-agents==2.6.0",),
    "pydantic_ai": (),
    "crewai": (),
}
"""Packages that write spans of a framework, besides those in the requirements of its example."""
_EXPORTER = ("opentelemetry-sdk==1.45.2", "opentelemetry-exporter-otlp-json-file==0.66b1")
CONVERSATIONS = {
    "s-1": ("Where is order A-17?", "And when does it arrive?"),
    "s-2": ("Where is order B-4?",),
    "s-3": ("When do you open?",),
    "s-4": ("Where is order E-3?",),
    "s-5": ("Cancel order C-9.",),
}
"""Questions by session. The call of the tool about E-3 fails, and the model's call about C-9."""
_TIMEOUT_S = 600


@click.command()
@click.argument("names", nargs=-1, type=click.Choice([*PACKAGES]))
def main(names: tuple[str, ...]) -> None:
    """Record the traces of the given frameworks, of all by default."""
    for name in names or PACKAGES:
        file = RECORDINGS / f"{name}.jsonl"
        file.write_text(record(name), encoding="utf-8")
        click.echo(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes")


def record(name: str) -> str:
    """Return the traces of a framework as JSON lines, without paths of this machine.

    Raises:
        click.ClickException: the packages could not be installed, or the conversations could not be held.
    """
    with tempfile.TemporaryDirectory() as folder, serve_models(answer=answer) as models:
        home = Path(folder).resolve()
        python, example, traces = home / "env" / "bin" / "python", home / "shop", home / "traces.jsonl"
        shutil.copytree(ROOT / "examples" / "frameworks" / name, example)
        _run([str(uv()), "venv", "--python", sys.executable, str(home / "env")])
        requirements = ("-r", "requirements.txt", *PACKAGES[name], *_EXPORTER)
        _run([str(uv()), "pip", "install", "--python", str(python), *requirements], cwd=example)
        called = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": models.openai_url,
        }
        talk = [str(python), str(RECORDINGS / "talk.py"), name, str(traces)]
        _run(talk, cwd=example, env=called, given=json.dumps(CONVERSATIONS))
        return traces.read_text(encoding="utf-8").replace(str(home), "/app").replace(sys.base_prefix, "/usr")


def answer(request: Request) -> Reply:
    """Answer as the model of the shop; call its tool wrongly for order E-3, and refuse questions about C-9."""
    if "C-9" in request.text:
        return Fault(error="bad_request", times=None)
    if "E-3" not in request.text:
        return shop_answer(request)
    if not request.results:
        return Answer(tools=(ToolCall("find_order", {"order": "E-3"}),), prompt_tokens=10, completion_tokens=5)
    return Answer("I cannot find your order.", prompt_tokens=20, completion_tokens=5)


def _run(command: list[str], cwd: Path = ROOT, env: dict[str, str] | None = None, given: str = "") -> None:
    ended = subprocess.run(
        command, cwd=cwd, env=env, input=given, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    if ended.returncode != 0:
        raise click.ClickException(f"{' '.join(command)}\n{ended.stdout}{ended.stderr}")


if __name__ == "__main__":
    main()
