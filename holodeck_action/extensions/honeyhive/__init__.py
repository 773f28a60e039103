"""Export of results in HoneyHive's data model."""
