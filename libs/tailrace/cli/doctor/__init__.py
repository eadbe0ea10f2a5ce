"""`tailrace doctor`: what a client would be told, step by step."""
