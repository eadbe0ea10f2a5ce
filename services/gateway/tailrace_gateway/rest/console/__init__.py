"""The console: its files, and the stream of events that its pages live on."""
