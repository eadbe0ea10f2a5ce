"""The lag of a consumer group on a partition, for every place that shows it."""


def lag(committed_offset: int, log_end_offset: int) -> int:
    """Records between the committed offset and the end of the log; none for a commit beyond the end."""
    return max(0, log_end_offset - committed_offset)


LAG_IN_SQL = (
    "CASE WHEN log_end_offset < committed_offset THEN 0 ELSE log_end_offset - committed_offset END"  # NULL stays NULL
)
"""The same over the columns of that name."""
