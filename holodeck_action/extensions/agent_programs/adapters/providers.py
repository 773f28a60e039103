"""Programs that call many providers: their model is PROVIDER/MODEL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec.structs import replace

from holodeck_action.extensions.agent_programs.adapters.adapter import OPENAI_SERVER, Adapter, Launch
from holodeck_action.record.agent_errors import TargetError
from holodeck_action.suite.model.named_models import NAMED

JOB = "job"
"""The provider of models of the server at OPENAI_BASE_URL, which speaks Chat Completions."""
_OTHER_KEYS = {"google": "GEMINI_API_KEY"}


class ProvidersAdapter(Adapter):
    """A program that calls the provider that its model names, or the server at OPENAI_BASE_URL."""

    passes = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
    server = OPENAI_SERVER
    scripted_model: ClassVar[str] = "openai/scripted"

    def keys(self, model: str | None) -> Sequence[str]:
        """Return the variable with the key of the model's provider."""
        provider, _, name = (model or "").partition("/")
        if not name:
            example = f"openai/{NAMED['openai'][0]}"
            raise TargetError(f"agent: {self.name} needs a model with its provider, such as {example}")
        variable = f"{provider.upper().replace('-', '_')}_API_KEY"
        return self.passes if provider == "openai" else [_OTHER_KEYS.get(provider, variable)]

    def arguments(self, launch: Launch) -> Sequence[str]:
        """Return the arguments after the program's name."""
        model = self.own_model(launch)
        return super().arguments(replace(launch, model=f"{JOB}/{model}") if model else launch)

    def own_model(self, launch: Launch) -> str:
        """Return the name of the model of the server at OPENAI_BASE_URL; empty if the program calls another one."""
        provider, _, name = (launch.model or "").partition("/")
        return name if provider == "openai" and launch.environ.get("OPENAI_BASE_URL") else ""
