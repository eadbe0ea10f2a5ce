"""The metadata log: as followers fetch it, how it begins, its SQL projection, and the thread that asks the store."""
