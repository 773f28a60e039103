"""Telemetry and the runners of HoloDeck: fields that this version checks and hands on or names as unused."""

from __future__ import annotations

from dataclasses import replace

from tests.fields.blocks import (
    ABOVE_ZERO,
    EMPTY,
    FLAG,
    MAPPING,
    TEXT,
    TEXTS,
    UNIT,
    WHOLE_ABOVE_ZERO,
    Block,
    Values,
    choice,
    count,
)


def telemetry(model: str, path: str, fields: dict[str, Values]) -> Block:
    """A block at or below `observability`."""
    names = [name for name in path.split(".") if name]
    place = "".join(f"{{{name}: " for name in names) + "%s" + "}" * len(names)
    return Block(model, fields, place=f"observability: {place}", path=f"observability{path}")


OBSERVABILITY = (
    telemetry(
        "Observability",
        "",
        {
            "enabled": FLAG,
            "disable_provider_tracing": FLAG,
            "service_name": TEXT,
            "traces": EMPTY,
            "metrics": EMPTY,
            "logs": EMPTY,
            "exporters": EMPTY,
            "resource_attributes": Values(("{a: 1}",), "3", "must be a mapping"),
        },
    ),
    telemetry(
        "Traces",
        ".traces",
        {
            "enabled": FLAG,
            "sample_rate": UNIT,
            "capture_content": FLAG,
            "capture_evaluation_content": FLAG,
            "redaction_patterns": TEXTS,
            "max_queue_size": count(1),
            "max_export_batch_size": count(1),
            "schedule_delay_millis": count(100),
        },
    ),
    telemetry(
        "MetricsExport",
        ".metrics",
        {"enabled": FLAG, "export_interval_ms": WHOLE_ABOVE_ZERO, "include_semantic_kernel_metrics": FLAG},
    ),
    telemetry(
        "Logs",
        ".logs",
        {"enabled": FLAG, "level": TEXT, "include_trace_context": FLAG, "filter_namespaces": TEXTS},
    ),
    telemetry(
        "Exporters",
        ".exporters",
        {"console": EMPTY, "otlp": EMPTY, "prometheus": MAPPING, "azure_monitor": MAPPING},
    ),
    telemetry(
        "ConsoleExporter",
        ".exporters.console",
        {"enabled": FLAG, "pretty_print": FLAG, "include_timestamps": FLAG},
    ),
    telemetry(
        "OTLPExporter",
        ".exporters.otlp",
        {
            "enabled": FLAG,
            "endpoint": TEXT,
            "protocol": choice("grpc", "http"),
            "headers": Values(("{A: 1}",), "A=1", "must be a mapping"),
            "timeout_ms": WHOLE_ABOVE_ZERO,
            "compression": TEXT,
            "insecure": FLAG,
        },
    ),
)

LEVELS = ("low", "medium", "high", "xhigh", "max")
CLAUDE = Block(
    "ClaudeConfig",
    {
        "working_directory": TEXT,
        "permission_mode": choice("manual", "acceptEdits", "acceptAll"),
        "max_turns": count(1),
        "max_concurrent_sessions": count(1, 500),
        "session_memory_estimate_mib": count(50, 2000),
        "extended_thinking": EMPTY,
        "web_search": FLAG,
        "bash": EMPTY,
        "file_system": EMPTY,
        "agents": Values(("{a: {description: d, prompt: p}}",), "3", "must be a mapping"),
        "allowed_tools": TEXTS,
        "disallowed_tools": TEXTS,
        "effort": choice(*LEVELS),
        "max_budget_usd": ABOVE_ZERO,
        "fallback_model": TEXT,
        "setting_sources": Values(("[user, project, local, all]",), "user", "must be a list"),
        "i_understand_this_is_unsafe": FLAG,
        "disable_default_hooks": FLAG,
        "disable_subprocess_env_scrub": FLAG,
    },
    place="claude: %s",
    path="claude",
)
OPENAI = Block(
    "OpenAIConfig",
    {
        "max_concurrent_sessions": count(1, 500),
        "session_memory_estimate_mib": count(50, 2000),
        "max_turns": count(1),
        "i_understand_this_is_unsafe": FLAG,
        "disable_default_hooks": FLAG,
        "disable_subprocess_env_scrub": FLAG,
        "permissions": EMPTY,
        "effort": choice("none", "minimal", *LEVELS),
        "max_budget_usd": ABOVE_ZERO,
        "fallback_model": TEXT,
        "disallowed_tools": TEXTS,
    },
    place="openai: %s",
    path="openai",
)
BACKENDS = (
    CLAUDE,
    Block(
        "ExtendedThinking",
        {"enabled": FLAG, "budget_tokens": count(1000, 100000)},
        place="claude: {extended_thinking: %s}",
        path="claude.extended_thinking",
    ),
    Block(
        "BashAccess",
        {"enabled": FLAG, "excluded_commands": TEXTS, "allow_unsafe": FLAG},
        place="claude: {bash: %s}",
        path="claude.bash",
    ),
    Block(
        "FileAccess",
        {"read": FLAG, "write": FLAG, "edit": FLAG},
        place="claude: {file_system: %s}",
        path="claude.file_system",
    ),
    Block(
        "Subagent",
        {
            "description": TEXT,
            "prompt": TEXT,
            "prompt_file": replace(TEXT, beside={"prompt": None}),
            "tools": TEXTS,
            "model": choice("sonnet", "opus", "haiku", "inherit"),
        },
        place="claude: {agents: {a: %s}}",
        path="claude.agents.a",
        base={"description": "d", "prompt": "p"},
    ),
    OPENAI,
    Block(
        "ToolPermissions",
        {
            "allowed_tools": Values(
                ("[a]",), "[a, b]", "names a tool that disallowed_tools names too", {"disallowed_tools": "[b]"}
            ),
            "disallowed_tools": TEXTS,
        },
        place="openai: {permissions: %s}",
        path="openai.permissions",
    ),
)

BLOCKS = (*OBSERVABILITY, *BACKENDS)
