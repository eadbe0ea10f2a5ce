"""`tailrace produce` and `tailrace consume`: lines in, lines out."""
