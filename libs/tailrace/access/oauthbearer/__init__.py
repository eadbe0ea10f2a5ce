"""OAUTHBEARER: a client shows a token that says who it is."""
