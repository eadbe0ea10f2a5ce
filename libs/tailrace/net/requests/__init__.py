"""How many requests of each API there are, and how long they take."""
