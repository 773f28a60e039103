"""A run whose trials run on the workers of a Dask cluster: what is sent there, what runs there, what stays here."""
