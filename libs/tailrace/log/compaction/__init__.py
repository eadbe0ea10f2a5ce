"""Log compaction: which segments, which records stay, how the cleaned segments take their sources' place."""
