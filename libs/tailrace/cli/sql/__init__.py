"""`tailrace sql`: queries over topics."""
