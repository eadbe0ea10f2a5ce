"""Topics as data frames: `tailrace.read`, and tables of Arrow, Polars and DuckDB."""
