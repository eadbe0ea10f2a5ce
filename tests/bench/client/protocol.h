// The four Kafka messages that the load client speaks: Metadata v12, Produce v9-13, Fetch v12-17; and the record batch v2.
#ifndef PROTOCOL_H
#define PROTOCOL_H
#include "bytes.h"

enum { CORRELATION_AT = 8, MAX_TOPIC = 249, MAX_HEAD = 512, METADATA_VERSION = 12 };

typedef struct {
  char topic[MAX_TOPIC + 1];
  uint8_t topic_id[16];
  int produce_version, fetch_version, acks;
  int fetch_max_wait_ms, fetch_min_bytes, fetch_max_bytes;
} dialect;

typedef struct {
  int32_t leader;
  char host[256];
  int port;
} partition_leader;

typedef struct {
  int error;
  int64_t high_watermark, log_start_offset, next_offset;
  uint64_t records_bytes, records;
} fetched;

// Builds a batch of equal records of record_size value bytes, as many as fit into batch_size (at least one); the caller frees it.
uint8_t *build_batch(size_t record_size, size_t batch_size, int64_t timestamp_ms, size_t *length, int *records);

// Request frames. A head is everything before the records; both heads leave the correlation id at CORRELATION_AT.
size_t encode_metadata(uint8_t *into, const dialect *d);
size_t encode_produce_head(uint8_t *into, const dialect *d, int32_t partition, size_t batch_length, size_t tail_length);
size_t encode_fetch(uint8_t *into, const dialect *d, int32_t partition, int64_t offset);

// What follows the records in a Produce request: the empty tagged fields of partition, topic and request.
enum { PRODUCE_TAIL = 3 };

// Answers, without their size; each returns false when it can't be understood.
bool decode_metadata(reader in, dialect *d, partition_leader *leaders, int capacity, int *count, int *error);
bool decode_produce(reader in, const dialect *d, int *error);
bool decode_fetch(reader in, const dialect *d, fetched *out);
#endif
