"""Support for agents built with frameworks: adapters for their results, and readers of their spans."""
