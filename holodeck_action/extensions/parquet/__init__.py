"""Results as Parquet tables, and cases from them."""
