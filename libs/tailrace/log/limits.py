"""What a topic takes of a client, and how it stores it: sizes, timestamps, keys, compression.type, LogAppendTime.

Most topics ask nothing that a batch's header does not say. Where records must be examined or compressed again, that may
take seconds, however small the batch is: `examine_at_once` does what others can wait for, `examine` is for a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tailrace.errors import ApiError, ErrorCode
from tailrace.log.config import LogSettings
from tailrace.log.segment.index import TIME_ENTRY_SIZE
from tailrace.log.segment.segment import Segment
from tailrace.records.batch import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    BatchHeader,
    Bytes,
    WritableBytes,
    checksum,
    read_header,
    stamp_log_append_time,
    stamp_max_timestamp,
    validate_produced,
)
from tailrace.records.compression import MAX_DECOMPRESSED_BYTES, Codec, TooManyBytes, decompress, is_one_lz4_frame
from tailrace.records.record import recompress
from tailrace.records.record_errors import MOST_BLAMED, RecordErrors, Rules, record_errors

_FOREVER: Final = 2**63 - 1
_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
# What is done where others wait: about a millisecond, less than it costs to have a thread do it under load.
_BYTES_AT_ONCE: Final = 64 * 1024
_PLAIN_BYTES_AT_ONCE: Final = 64 * 1024
_RECORDS_AT_ONCE: Final = 1000
_RECOMPRESSED_AT_ONCE: Final = 16 * 1024  # plain bytes: gzip and the higher levels of zstd are slow


class BadRecords(ApiError):
    """Some records of a batch are refused, and the whole batch with them (KIP-467); `indices` are those to blame."""

    def __init__(self, code: ErrorCode, message: str, indices: tuple[int, ...]) -> None:
        super().__init__(code, message)
        self.indices = indices


class Examined(bytearray):
    """A client's batch whose records were looked at, as the topic stores it; sent_bytes: of what the client sent."""

    sent_bytes = 0


def _go_on() -> None:
    """Nobody stops it."""


class Limits:
    """What the append path reads of the settings, as plain attributes."""

    __slots__ = (
        "codec",
        "compact",
        "compression_level",
        "every_record",
        "flushes",
        "index_takes_nothing",
        "log_append_time",
        "looks",
        "max_batch_bytes",
        "max_message_bytes",
        "rewrites",
        "segment_bytes",
        "segment_jitter_ms",
        "segment_ms",
        "settings",
        "timestamp_after_max_ms",
        "timestamp_before_max_ms",
    )

    def __init__(self, settings: LogSettings) -> None:
        self.settings = settings
        self.segment_bytes = settings.segment_bytes
        # The time index keeps room for the entry that closing a segment writes (apache/kafka: TimeIndex.isFull).
        self.index_takes_nothing = settings.segment_index_bytes < 2 * TIME_ENTRY_SIZE
        self.compact = "compact" in settings.cleanup_policy
        # The active segment is never compacted, so max.compaction.lag.ms has to close it (KIP-354).
        longest_ms = settings.max_compaction_lag_ms if self.compact else settings.segment_ms
        self.segment_ms = min(settings.segment_ms, max(1, longest_ms))
        self.segment_jitter_ms = min(settings.segment_jitter_ms, self.segment_ms)
        self.max_message_bytes = settings.max_message_bytes
        self.max_batch_bytes = min(settings.segment_bytes, settings.max_message_bytes)
        self.flushes = settings.flush_messages < _FOREVER
        self.codec = _CODECS.get(settings.compression_type)  # None: as the producer compressed it
        self.compression_level = _level(self.codec, settings)
        self.log_append_time = settings.message_timestamp_type == "LogAppendTime"
        self.rewrites = self.codec is not None or self.log_append_time
        self.timestamp_after_max_ms = settings.message_timestamp_after_max_ms
        self.timestamp_before_max_ms = settings.message_timestamp_before_max_ms
        # Only the largest timestamp of a batch is in its header.
        self.every_record = self.compact or (not self.log_append_time and self.timestamp_before_max_ms < _FOREVER)
        self.looks = self.every_record or self.codec is not None  # whether batches of clients are to be examined

    def roll_after_ms(self, segment: Segment) -> int:
        """segment.ms less this segment's share of segment.jitter.ms, which its name decides."""
        if not self.segment_jitter_ms:
            return self.segment_ms
        return self.segment_ms - checksum(segment.path("").encode()) % self.segment_jitter_ms

    def waits(self, segment: Segment, now_ms: int) -> bool:
        """Whether a segment that begins without a timestamp takes more: the clock counts then, as in Kafka."""
        if segment.begun_ms < 0:
            segment.begun_ms = now_ms  # since the log was opened
        return now_ms - segment.begun_ms <= self.roll_after_ms(segment)

    # -- what has to be known of records ------------------------------------------------------------------------------

    def examine_at_once(self, batch: Bytes, now_ms: int, *, enough: bool = False) -> Examined | None:
        """As examine; None where that may take long, or there was enough to look into already."""
        header = validate_produced(batch)
        large = enough or header.record_count > _RECORDS_AT_ONCE or header.size_bytes > _BYTES_AT_ONCE
        if large and (self._rules(header, now_ms) is not None or self._recompresses(header)):
            self._refuse_by_header(header)
            return None
        try:
            return self._examine(Examined(batch), header, now_ms, most_bytes=self._most_at_once(header))
        except TooManyBytes:
            return None

    def examine(self, batch: Bytes, now_ms: int, on_step: Callable[[], None] = _go_on) -> Examined:
        """The client's batch as append takes it without another look; raises what refuses it, and what on_step does.

        In any thread. A topic whose settings change meanwhile gets it as it was to be before.
        """
        return self._examine(Examined(batch), validate_produced(batch), now_ms, MAX_DECOMPRESSED_BYTES, on_step)

    def _examine(
        self,
        batch: Examined,
        header: BatchHeader,
        now_ms: int,
        most_bytes: int,
        on_step: Callable[[], None] = _go_on,
    ) -> Examined:
        self._refuse_by_header(header)
        rules = self._rules(header, now_ms, anew=self._recompresses(header))
        batch.sent_bytes = header.size_bytes
        if rules is None:
            return batch
        plain = _plain(batch, header, most_bytes)
        blamed = record_errors(header, plain, rules, on_step)
        if blamed.max_timestamp != header.max_timestamp and not any(blamed[:2]):
            header = header._replace(max_timestamp=blamed.max_timestamp)  # as in Kafka, which reads all records
            stamp_max_timestamp(batch, 0, blamed.max_timestamp)
        self._refuse_blamed(header, blamed, rules)
        if self._recompresses(header):
            assert self.codec is not None
            batch = Examined(recompress(header, plain, self.codec, self.compression_level))
            batch.sent_bytes = header.size_bytes
            self.refuse_size(len(batch))
        return batch

    def _recompresses(self, header: BatchHeader) -> bool:
        return self.codec is not None and header[5] & COMPRESSION_MASK != self.codec

    def _most_at_once(self, header: BatchHeader) -> int:
        return _RECOMPRESSED_AT_ONCE if self._recompresses(header) else _PLAIN_BYTES_AT_ONCE

    # -- while it is appended -----------------------------------------------------------------------------------------

    def rewrite(
        self, buffer: WritableBytes, header: BatchHeader, now_ms: int, from_client: bool
    ) -> tuple[WritableBytes, BatchHeader, int]:
        """The batch as this topic stores it, its header and its size: compression.type, LogAppendTime.

        MESSAGE_TOO_LARGE and so on for what it has become, as in Kafka.
        """
        if from_client and self._recompresses(header) and type(buffer) is not Examined:
            buffer = self.examine(buffer, now_ms)
        if self.log_append_time:
            stamp_log_append_time(buffer, 0, now_ms)
        return buffer, read_header(buffer), len(buffer)

    def refuse(self, buffer: WritableBytes, header: BatchHeader, now_ms: int) -> None:
        """The refusal of a client's batch that this topic does not take."""
        self._refuse_by_header(header)
        if type(buffer) is Examined:
            return
        rules = self._rules(header, now_ms)
        if rules is None:
            return
        if not self.every_record and header.record_count > _RECORDS_AT_ONCE:
            raise _outside(rules, ())  # its header says that it is refused: who is to blame nobody waits for
        try:
            plain = _plain(buffer, header, MAX_DECOMPRESSED_BYTES if self.every_record else _PLAIN_BYTES_AT_ONCE)
        except TooManyBytes:
            raise _outside(rules, ()) from None
        self._refuse_blamed(header, record_errors(header, plain, rules, _go_on), rules)

    def refuse_size(self, size_bytes: int) -> None:
        """MESSAGE_TOO_LARGE or RECORD_LIST_TOO_LARGE for a batch of more bytes than this topic takes."""
        if size_bytes > self.max_message_bytes:
            raise _refusal(ErrorCode.MESSAGE_TOO_LARGE, f"above max.message.bytes ({self.max_message_bytes})")
        if size_bytes > self.segment_bytes:
            raise _refusal(ErrorCode.RECORD_LIST_TOO_LARGE, f"above segment.bytes ({self.segment_bytes})")

    def _refuse_by_header(self, header: BatchHeader) -> None:
        self.refuse_size(header[1] + LOG_OVERHEAD)
        if not self.log_append_time and header[5] & LOG_APPEND_TIME:
            raise ApiError(ErrorCode.INVALID_TIMESTAMP, "producers may not set the timestamp type to LogAppendTime")

    def _rules(self, header: BatchHeader, now_ms: int, *, anew: bool = False) -> Rules | None:
        """What the records have to keep to, None where the header vouches for them.

        anew: the batch gets a CRC of ours, which must not vouch for nonsense.
        """
        earliest_ms, latest_ms = -_FOREVER, _FOREVER
        if not self.log_append_time:
            latest_ms = now_ms + self.timestamp_after_max_ms
            if self.timestamp_before_max_ms < _FOREVER:
                earliest_ms = now_ms - self.timestamp_before_max_ms
        if header[8] <= latest_ms and not self.every_record and not anew:
            return None
        counted = anew or bool(header[5] & COMPRESSION_MASK)  # Kafka asks for offsets that count up in these only
        return Rules(earliest_ms, latest_ms, self.compact, counted)

    def _refuse_blamed(self, header: BatchHeader, blamed: RecordErrors, rules: Rules) -> None:
        outside, keyless, _ = blamed
        late = set(outside).difference(keyless)  # where the key is missing Kafka asks for no time
        if late or (header[8] > rules.latest_ms and not keyless):
            raise _outside(rules, tuple(sorted(late.union(keyless))[:MOST_BLAMED]))
        if keyless:
            message = "a compacted topic takes no records without a key"
            raise BadRecords(ErrorCode.INVALID_RECORD, message, tuple(keyless))


def _plain(batch: Bytes, header: BatchHeader, most_bytes: int) -> bytes:
    """The records' bytes; TooManyBytes only where more may be asked for.

    Never CORRUPT_MESSAGE: producers send that again until their time is over. MESSAGE_TOO_LARGE has Java's cut the
    batch into smaller ones.
    """
    records = memoryview(batch)[HEADER_SIZE : header.size_bytes]
    try:
        plain = decompress(header.codec, records, most_bytes)
    except TooManyBytes as large:
        if most_bytes < MAX_DECOMPRESSED_BYTES:
            raise
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, large.message) from None
    except ApiError as damaged:
        raise ApiError(ErrorCode.INVALID_RECORD, damaged.message) from None
    if header.codec is Codec.LZ4 and not is_one_lz4_frame(records):
        raise ApiError(ErrorCode.INVALID_RECORD, "lz4 must be one frame of independent blocks: Java reads no other")
    return plain


def _outside(rules: Rules, indices: tuple[int, ...]) -> BadRecords:
    message = f"timestamps must be within [{max(0, rules.earliest_ms)}, {rules.latest_ms}]"
    settings = "message.timestamp.before.max.ms and after.max.ms"
    return BadRecords(ErrorCode.INVALID_TIMESTAMP, f"{message}: {settings}", indices)


def _level(codec: Codec | None, settings: LogSettings) -> int | None:
    """KIP-390: the level of the codec the topic asks for; None is the codec's own default."""
    levels = {
        Codec.GZIP: settings.compression_gzip_level if settings.compression_gzip_level >= 0 else None,
        Codec.LZ4: settings.compression_lz4_level,
        Codec.ZSTD: settings.compression_zstd_level,
    }
    return None if codec is None else levels.get(codec)


def _refusal(code: ErrorCode, message: str) -> ApiError:
    return ApiError(code, f"the batch is {message}")
