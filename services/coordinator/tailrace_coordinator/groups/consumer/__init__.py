"""The consumer protocol (KIP-848), as far as an imported log has groups of it."""
