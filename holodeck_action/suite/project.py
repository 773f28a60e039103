"""Project and user configuration files (HoloDeck format reference §1.9)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from holodeck_action.suite.base import Flag, FormatModel, Integer, MaybeText, NonBlank, Number, SecretText
from holodeck_action.suite.providers import LLMProvider
from holodeck_action.suite.tools import MCPTool

Seconds = Annotated[Number, Field(gt=0.0)]


class ExecutionConfig(FormatModel):
    """Execution settings; None means that this file does not set it."""

    file_timeout: Seconds | None = None
    """Seconds for reading one file; 30 when set nowhere."""
    llm_timeout: Seconds | None = None
    """Seconds for one model call; 60 when set nowhere."""
    download_timeout: Seconds | None = None
    """Seconds for one download; 30 when set nowhere."""
    cache_enabled: Flag | None = None
    cache_dir: MaybeText = None
    verbose: Flag | None = None
    quiet: Flag | None = None
    parallel_test_cases: Annotated[Integer, Field(ge=1)] | None = None


class VectorstoreConfig(FormatModel):
    """A named vector database."""

    provider: NonBlank
    connection_string: SecretText | None = None
    options: dict[str, Any] | None = None


class ProjectConfig(FormatModel):
    """A config.yaml: what several suites share."""

    providers: dict[str, LLMProvider] | None = None
    """Model references; the entry of a provider fills what `model` and `evaluations.model` leave out."""
    vectorstores: dict[str, VectorstoreConfig] | None = None
    execution: ExecutionConfig | None = None
    deployment: dict[str, Any] | None = None
    mcp_servers: list[MCPTool] | None = None
    """Appended to the tools unless a tool of that name exists."""
