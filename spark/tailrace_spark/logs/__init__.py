"""Log aggregation: lines of many formats -> one schema -> Parquet by source and hour, with a search index."""
