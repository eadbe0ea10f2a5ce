"""Opening a log: what a crash interrupted is finished, what may be torn is checked, what is derived is rebuilt."""
