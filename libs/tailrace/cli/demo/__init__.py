"""The main job: this machine's own log lines through a real client, there and back, counted and compared."""
