"""Exports results as Parquet tables, and reads cases from Parquet files."""
