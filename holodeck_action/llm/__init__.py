"""The wire: model clients over one transport."""
