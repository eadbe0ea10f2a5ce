"""Operators' commands: `tailrace controller accept-restored`, begin-with and write-image."""
