"""Transactions: the machine of `__transaction_state`, and what carries its decisions out."""
