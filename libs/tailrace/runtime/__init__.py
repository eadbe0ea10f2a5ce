"""What every role's process shares: opening, timers, health and metrics, logging."""
