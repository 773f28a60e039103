"""From files, flags and the environment to a record: settings, checks, the plan and its price, and the loop over trials."""
