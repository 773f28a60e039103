"""The models of a suite's files: agent, cases, tools, judges, metrics and policy."""
