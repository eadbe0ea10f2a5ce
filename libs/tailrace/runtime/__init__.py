"""What every role's process shares: opening, timers, health and metrics, logging."""

from tailrace.runtime.process import main
from tailrace.runtime.role import Environment, Opened, Role

__all__ = ["Environment", "Opened", "Role", "main"]
