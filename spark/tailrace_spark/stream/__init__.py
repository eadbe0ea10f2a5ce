"""Stream processing in stages: raw orders -> valid -> enriched by a table of customers -> revenue per window."""
