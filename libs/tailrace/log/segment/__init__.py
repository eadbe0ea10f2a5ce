"""One segment: its batches, its three indexes, and what a decaying disk did to it."""
