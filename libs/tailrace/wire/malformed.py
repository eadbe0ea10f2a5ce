"""The one exception of the codec."""


class Malformed(ValueError):
    """A frame or body that does not follow its schema."""


class NotKafka(Malformed):
    """What begins with no size that a frame can have: mostly another protocol."""
