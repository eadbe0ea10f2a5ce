"""`PYTHONPATH=tests python -m sim.transactions`: any number of simulated worlds, or one of them told as a story."""

from __future__ import annotations

import sys

from sim import worlds
from sim.transactions.simulation import simulate

if __name__ == "__main__":
    sys.exit(worlds.main("sim.transactions", __doc__, simulate, "events", "faults", "committed", "aborted"))
