"""Record batch v2 as a view on bytes, its records, and compression. Pure."""
