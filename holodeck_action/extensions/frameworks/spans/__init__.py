"""What the OpenTelemetry spans of a target tell of its turns."""
