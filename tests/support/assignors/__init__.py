"""Random histories of groups, and what an assignment in them costs; for tests and for bench.assignors."""
