"""The one exception of the codec."""


class Malformed(ValueError):
    """A frame or body that does not follow its schema."""
