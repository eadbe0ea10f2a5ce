"""Log aggregation: lines of many formats -> one schema -> Delta tables by source and hour, with a search index."""
