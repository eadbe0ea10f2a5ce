"""Groups and offsets as pure state machines."""
