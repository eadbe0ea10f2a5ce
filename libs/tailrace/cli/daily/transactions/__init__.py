"""`tailrace transaction` and `tailrace topic producers`: what transactional producers do, and what they left open."""
