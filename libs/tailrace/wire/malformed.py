"""The one exception of every decoder: the bytes are not a message of the API they claim."""


class Malformed(ValueError):
    """Bytes that do not match their schema or frame. The connection they came on is closed."""


class NotKafka(Malformed):
    """The first bytes of something else than Kafka's protocol: monitoring and scanners send such."""


class TooManyRows(Malformed):
    """A request with a list above its ceiling (limits.tsv), decoded, so that it can be refused with this error code."""

    def __init__(self, why: str, request: object, code: int) -> None:
        super().__init__(why)
        self.request = request
        self.code = code
