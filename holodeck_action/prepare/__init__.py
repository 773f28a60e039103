"""From files, flags and the environment to what can run: suites, settings, checks, the plan and its price."""
