"""A record as a folder of Parquet tables."""
