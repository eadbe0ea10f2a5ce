"""Authorization: which operation on which resource each request needs, and how it is refused. Pure."""
