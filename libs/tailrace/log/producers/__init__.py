"""What a log knows of its producers (KIP-98): sequences, epochs, open transactions, and the snapshots of them."""
