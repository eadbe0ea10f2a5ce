"""Groups of the consumer protocol (KIP-848), which may have classic members, too."""
