"""Receives OpenTelemetry spans of a target, and reads tool calls, usage and other data of its turns from them."""
