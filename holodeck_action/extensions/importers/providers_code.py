"""Calls providers of promptfoo: programs, Python functions and `echo`.

`import` copies the functions that a suite needs into the suite's agent file.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

VARIABLE = re.compile(r"\{\{\s*env\.(\w+)\s*\}\}")


def echo_prompt(request: dict[str, Any]) -> dict[str, Any]:
    """Return the prompt as the answer, like the provider `echo`."""
    return {"response": request["input"], "tool_invocations": []}


def python_provider(request: dict[str, Any], file: str, function: str, config: dict[str, Any]) -> Any:
    """Call a provider that is a function in a Python file, with the prompt, its options and the case's variables."""
    path = Path(__file__).parent / file
    spec = importlib.util.spec_from_file_location("imported_provider", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, function)(request["input"], {"config": with_variables(config)}, provider_context(request))
    return convert_reply(asyncio.run(found) if inspect.iscoroutine(found) else found)


def run_command(request: dict[str, Any], command: str, folder: str, config: dict[str, Any]) -> Any:
    """Run a provider that is a program, with the prompt, its options and the case's variables as arguments.

    The answer is the program's output.
    """
    options = {"config": with_variables(config)}
    # Split first: the value of a variable is never more than one argument.
    started = with_variables(shlex.split(VARIABLE.sub(r"{{env.\1}}", command)))
    arguments = [*started, request["input"], json.dumps(options), json.dumps(provider_context(request))]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        arguments, capture_output=True, text=True, cwd=Path(__file__).parent / folder, env=environment, check=False
    )
    if done.returncode != 0:
        return {"error": f"the program ended with {done.returncode}: {done.stderr[-500:]}"}
    return done.stdout.strip()


def with_variables(value: Any) -> Any:
    """Return JSON data with `{{ env.NAME }}` in strings replaced by the value of the environment variable.

    Raises:
        KeyError: a variable is not set.
    """
    if isinstance(value, str):
        return VARIABLE.sub(lambda found: os.environ[found[1]], value)
    if isinstance(value, dict):
        return {key: with_variables(item) for key, item in value.items()}
    return [with_variables(item) for item in value] if isinstance(value, list) else value


def provider_context(request: dict[str, Any]) -> dict[str, Any]:
    """Return the context argument of a provider, which contains the case's variables."""
    return {"vars": (request.get("turn_config") or {}).get("vars", {})}


def convert_reply(reply: Any) -> Any:
    """Convert the return value of a promptfoo provider to the reply of an agent."""
    if not isinstance(reply, dict):
        return reply
    if reply.get("error"):
        return {"error": str(reply["error"])}
    made: dict[str, Any] = {"response": reply.get("output", "")}
    usage = reply.get("tokenUsage") or reply.get("token_usage") or {}
    if "prompt" in usage and "completion" in usage:
        made["usage"] = {"prompt_tokens": usage["prompt"], "completion_tokens": usage["completion"]}
    if reply.get("cost") is not None:
        made["cost_usd"] = reply["cost"]
    return made
