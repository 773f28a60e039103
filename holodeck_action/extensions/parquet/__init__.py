"""Export of results as Parquet tables, and cases read from Parquet files."""
