"""`tailrace group`: list, describe, lag, reset, delete."""
