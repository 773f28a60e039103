"""Tests of the extension `doctor`."""
