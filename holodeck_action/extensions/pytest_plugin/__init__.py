"""Cases of suites as tests of pytest."""
