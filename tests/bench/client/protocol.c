#include "protocol.h"

#include <stdlib.h>

enum { PRODUCE = 0, FETCH = 1, METADATA = 3, BATCH_HEADER = 61, CRC_AT = 17, CRC_FROM = 21 };
static const char CLIENT_ID[] = "tailrace-bench";

// Bitwise: it runs once, over one batch.
static uint32_t crc32c(const uint8_t *data, size_t length) {
  uint32_t crc = 0xffffffff;
  while (length--) {
    crc ^= *data++;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  return ~crc;
}

static uint8_t *put_record(uint8_t *at, int number, const uint8_t *value, size_t size) {
  uint8_t head[32], *h = head;
  *h++ = 0;                        // attributes
  h = put_varint(h, 0);            // timestamp delta
  h = put_varint(h, number);       // offset delta
  h = put_varint(h, -1);           // no key
  h = put_varint(h, (int64_t)size);
  at = put_varint(at, (int64_t)((size_t)(h - head) + size + 1));
  at = put_bytes(at, head, (size_t)(h - head));
  at = put_bytes(at, value, size);
  return put_varint(at, 0);        // no headers
}

uint8_t *build_batch(size_t record_size, size_t batch_size, int64_t timestamp_ms, size_t *length, int *records) {
  size_t room = record_size + 32, capacity = batch_size > room + BATCH_HEADER ? batch_size : room + BATCH_HEADER;
  uint8_t *batch = malloc(capacity), *value = malloc(record_size + 1), *at = batch + BATCH_HEADER;
  if (!batch || !value) abort();
  uint32_t random = 12345;
  for (size_t i = 0; i < record_size; i++) value[i] = (uint8_t)((random = random * 1664525 + 1013904223) >> 24);
  int count = 0;
  do at = put_record(at, count++, value, record_size);
  while ((size_t)(at - batch) + room <= batch_size);
  free(value);
  *length = (size_t)(at - batch);
  *records = count;
  at = put_int(batch, 0, 8);                 // base offset: the broker's to write
  at = put_int(at, *length - 12, 4);
  at = put_int(at, (uint32_t)-1, 4);         // leader epoch: the broker's too
  *at++ = 2;                                 // magic
  at += 4;                                   // CRC, below
  at = put_int(at, 0, 2);                    // attributes
  at = put_int(at, (uint32_t)(count - 1), 4);
  at = put_int(at, (uint64_t)timestamp_ms, 8);
  at = put_int(at, (uint64_t)timestamp_ms, 8);
  at = put_int(at, UINT64_MAX, 8);           // no producer id, epoch and sequence
  at = put_int(at, UINT64_MAX, 2);
  at = put_int(at, UINT64_MAX, 4);
  put_int(at, (uint32_t)count, 4);
  put_int(batch + CRC_AT, crc32c(batch + CRC_FROM, *length - CRC_FROM), 4);
  return batch;
}

static uint8_t *put_header(uint8_t *frame, int api_key, int version) {
  uint8_t *at = put_int(frame + 4, (uint64_t)api_key, 2);
  at = put_int(at, (uint64_t)version, 2);
  at = put_int(at, 0, 4);
  at = put_int(at, sizeof CLIENT_ID - 1, 2);
  at = put_bytes(at, CLIENT_ID, sizeof CLIENT_ID - 1);
  *at++ = 0;  // tagged fields
  return at;
}

static uint8_t *put_topic(uint8_t *at, const dialect *d, int version) {
  return version >= 13 ? put_bytes(at, d->topic_id, 16) : put_compact_string(at, d->topic);
}

static size_t finish(uint8_t *frame, const uint8_t *at, size_t more) {
  size_t length = (size_t)(at - frame);
  put_int(frame, length + more - 4, 4);
  return length;
}

size_t encode_metadata(uint8_t *into, const dialect *d) {
  uint8_t *at = put_header(into, METADATA, METADATA_VERSION);
  at = put_uvarint(at, 2);  // one topic
  memset(at, 0, 16);
  at = put_compact_string(at + 16, d->topic);
  at = put_bytes(at, "\0\0\0\0", 4);  // tags; no auto-creation; no authorized operations; tags
  return finish(into, at, 0);
}

size_t encode_produce_head(uint8_t *into, const dialect *d, int32_t partition, size_t batch_length, size_t tail_length) {
  uint8_t *at = put_header(into, PRODUCE, d->produce_version);
  *at++ = 0;  // no transactional id
  at = put_int(at, (uint64_t)d->acks, 2);
  at = put_int(at, 30000, 4);
  at = put_topic(put_uvarint(at, 2), d, d->produce_version);
  at = put_int(put_uvarint(at, 2), (uint32_t)partition, 4);
  at = put_uvarint(at, batch_length + 1);
  return finish(into, at, batch_length + tail_length);
}

size_t encode_fetch(uint8_t *into, const dialect *d, int32_t partition, int64_t offset) {
  uint8_t *at = put_header(into, FETCH, d->fetch_version);
  if (d->fetch_version < 15) at = put_int(at, UINT64_MAX, 4);  // replica id
  at = put_int(at, (uint64_t)d->fetch_max_wait_ms, 4);
  at = put_int(at, (uint64_t)d->fetch_min_bytes, 4);
  at = put_int(at, INT32_MAX, 4);
  *at++ = 0;                          // read uncommitted
  at = put_int(at, 0, 4);             // no fetch session
  at = put_int(at, UINT64_MAX, 4);
  at = put_topic(put_uvarint(at, 2), d, d->fetch_version);
  at = put_int(put_uvarint(at, 2), (uint32_t)partition, 4);
  at = put_int(at, UINT64_MAX, 4);    // current leader epoch: not checked
  at = put_int(at, (uint64_t)offset, 8);
  at = put_int(at, UINT64_MAX, 4);    // last fetched epoch
  at = put_int(at, UINT64_MAX, 8);    // log start offset: a follower's field
  at = put_int(at, (uint64_t)d->fetch_max_bytes, 4);
  at = put_bytes(at, "\0\0\1\1\0", 5);  // tags of partition and topic; nothing forgotten; no rack; tags
  return finish(into, at, 0);
}

typedef struct {
  int32_t id;
  char host[256];
  int port;
} node;

static void read_node(reader *in, node *into) {
  into->id = get_int32(in);
  size_t length = get_compact_length(in);
  const uint8_t *host = take(in, length);
  if (!host || length >= sizeof into->host) {
    in->bad = true;
    return;
  }
  memcpy(into->host, host, length);
  into->host[length] = 0;
  into->port = get_int32(in);
  skip_compact(in);  // rack
  skip_tags(in);
}

static void read_partition(reader *in, const node *nodes, size_t node_count, partition_leader *leaders, int capacity, int *error) {
  int16_t code = get_int16(in);
  int32_t index = get_int32(in), leader = get_int32(in);
  get_int32(in);  // leader epoch
  for (int list = 0; list < 3; list++) take(in, 4 * get_compact_length(in));
  skip_tags(in);
  if (code && !*error) *error = code;
  if (index < 0 || index >= capacity) return;
  leaders[index] = (partition_leader){.leader = leader};
  for (size_t i = 0; i < node_count; i++)
    if (nodes[i].id == leader) {
      memcpy(leaders[index].host, nodes[i].host, sizeof leaders[index].host);
      leaders[index].port = nodes[i].port;
    }
}

bool decode_metadata(reader in, dialect *d, partition_leader *leaders, int capacity, int *count, int *error) {
  static node nodes[256];
  get_int32(&in);  // correlation id
  skip_tags(&in);
  get_int32(&in);  // throttle time
  size_t node_count = get_compact_length(&in);
  if (node_count > sizeof nodes / sizeof *nodes) return false;
  for (size_t i = 0; i < node_count; i++) read_node(&in, nodes + i);
  skip_compact(&in);  // cluster id
  get_int32(&in);     // controller
  if (get_compact_length(&in) != 1) return false;
  *error = get_int16(&in);
  skip_compact(&in);  // name
  const uint8_t *id = take(&in, 16);
  if (id) memcpy(d->topic_id, id, 16);
  get_int(&in, 1);  // is internal
  size_t partitions = get_compact_length(&in);
  for (size_t i = 0; i < partitions && !in.bad; i++) read_partition(&in, nodes, node_count, leaders, capacity, error);
  *count = (int)partitions;
  return !in.bad;
}

static void skip_topic(reader *in, int version) {
  if (version >= 13)
    take(in, 16);
  else
    skip_compact(in);
}

bool decode_produce(reader in, const dialect *d, int *error) {
  get_int32(&in);
  skip_tags(&in);
  if (get_compact_length(&in) != 1) return false;
  skip_topic(&in, d->produce_version);
  if (get_compact_length(&in) != 1) return false;
  get_int32(&in);  // partition
  *error = get_int16(&in);
  return !in.bad;
}

// Walks the batch headers; a batch that was cut off at the end doesn't count.
static void walk_batches(reader in, fetched *out) {
  while (in.end - in.at >= BATCH_HEADER) {
    reader header = in;
    int64_t base_offset = get_int64(&header);
    int32_t length = get_int32(&header);
    if (length < BATCH_HEADER - 12 || !take(&in, 12 + (size_t)length)) return;
    take(&header, 11);  // leader epoch, magic, CRC, attributes
    out->next_offset = base_offset + get_int32(&header) + 1;
    take(&header, 30);  // timestamps and producer
    out->records += (uint64_t)get_int32(&header);
  }
}

bool decode_fetch(reader in, const dialect *d, fetched *out) {
  *out = (fetched){.next_offset = -1};
  get_int32(&in);
  skip_tags(&in);
  get_int32(&in);  // throttle time
  int error = get_int16(&in);
  get_int32(&in);  // session
  if (error) {
    out->error = error;
    return !in.bad;
  }
  if (get_compact_length(&in) != 1) return false;
  skip_topic(&in, d->fetch_version);
  if (get_compact_length(&in) != 1) return false;
  get_int32(&in);  // partition
  out->error = get_int16(&in);
  out->high_watermark = get_int64(&in);
  get_int64(&in);  // last stable offset
  out->log_start_offset = get_int64(&in);
  take(&in, 16 * get_compact_length(&in));  // aborted transactions: none are produced here
  get_int32(&in);                           // preferred read replica
  out->records_bytes = get_compact_length(&in);
  const uint8_t *records = take(&in, out->records_bytes);
  if (!records) return false;
  walk_batches((reader){records, records + out->records_bytes, false}, out);
  return !in.bad;
}
