"""A record beside another one: pairs of cases, differences, and what is beyond chance."""
