"""Tokens of OAUTHBEARER: signed JWTs, checked by the keys of a JWK set."""
