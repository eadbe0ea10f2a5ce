"""What waits: for an offset of a partition (acks=all, flush.messages, DeleteRecords), for data, or for its deadline."""
