"""From files, flags and environment to a record: settings, checks, the plan and its price, the loop over trials."""
