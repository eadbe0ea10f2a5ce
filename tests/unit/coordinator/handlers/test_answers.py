"""Every group API at both ends of its versions: the answers are Apache Kafka 4.4.0's, field for field."""

from pathlib import Path
from typing import Any

from support.coordinator import TOPIC_ID, Stage, image
from support.group_script import conversation
from tailrace.errors import ErrorCode
from tailrace.wire import codec
from tailrace.wire.refuse import refuse

GOLDEN = Path(__file__).parent / "testdata" / "apache-kafka-4.4.0.txt"


async def test_every_answer_is_kafkas() -> None:
    stage = Stage()
    await stage.become(image(topic="t1"))

    async def ask(message: Any, version: int) -> Any:
        """Over the wire format both ways, as a client would see it."""
        frame = codec.encode_request(message, version, 1, "script")
        request = codec.decode_request(message.API_KEY, version, frame[_header_size(message, version) :])
        asking = stage.ask(request, version, client_id="script")
        answer = await stage.answered(asking)
        if isinstance(answer, ErrorCode):
            answer = refuse(request, message.API_KEY, version, answer)
        raw = memoryview(codec.encode_response(answer, version, 1))[4:]
        return codec.decode_response(message.API_KEY, version, codec.response_body(message.API_KEY, version, raw))

    lines = await conversation(ask, TOPIC_ID)
    for ours, kafkas in zip(lines, GOLDEN.read_text().splitlines(), strict=True):
        assert ours == kafkas
    await stage.coordinator.close()


def _header_size(message: Any, version: int) -> int:
    """Size, api key, version, correlation id, client id, and the tags of a flexible header."""
    return 4 + 2 + 2 + 4 + 2 + len("script") + int(message.flexible_version_q(version))
