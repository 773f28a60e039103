"""Tests of the extension `trace_cases`."""
