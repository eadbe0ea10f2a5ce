"""Groups and offsets as state machines. Pure."""
