"""Groups and offsets as pure state machines; the shell around them is in shards.py."""
