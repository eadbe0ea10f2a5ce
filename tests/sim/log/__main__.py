"""`PYTHONPATH=tests python -m sim.log`: any number of simulated logs, or one of them told as a story."""

from __future__ import annotations

import sys

from sim import worlds
from sim.log.simulation import simulate

if __name__ == "__main__":
    sys.exit(worlds.main("sim.log", __doc__, simulate, "events", "faults", "recoveries", "compactions", "acknowledged"))
