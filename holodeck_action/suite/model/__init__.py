"""What a suite may hold, as values: agent, cases, tools, judges, metrics and policy."""
