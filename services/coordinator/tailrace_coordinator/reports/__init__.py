"""What the controller shows of groups and offsets in its SQL views."""
