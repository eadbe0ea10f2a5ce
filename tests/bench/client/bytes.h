// Big-endian and varint writers and readers. A reader that runs off its end, or meets nonsense, is marked bad and reads zeroes from then on.
#ifndef BYTES_H
#define BYTES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint8_t *put_int(uint8_t *at, uint64_t value, int width) {
  for (int shift = 8 * (width - 1); shift >= 0; shift -= 8) *at++ = (uint8_t)(value >> shift);
  return at;
}

static inline uint8_t *put_uvarint(uint8_t *at, uint64_t value) {
  for (; value > 127; value >>= 7) *at++ = (uint8_t)(value | 128);
  *at++ = (uint8_t)value;
  return at;
}

static inline uint8_t *put_varint(uint8_t *at, int64_t value) {
  return put_uvarint(at, ((uint64_t)value << 1) ^ (uint64_t)(value >> 63));
}

static inline uint8_t *put_bytes(uint8_t *at, const void *from, size_t length) {
  memcpy(at, from, length);
  return at + length;
}

static inline uint8_t *put_compact_string(uint8_t *at, const char *text) {
  size_t length = strlen(text);
  return put_bytes(put_uvarint(at, length + 1), text, length);
}

typedef struct {
  const uint8_t *at, *end;
  bool bad;
} reader;

static inline const uint8_t *take(reader *in, size_t length) {
  if (in->bad || (size_t)(in->end - in->at) < length) {
    in->bad = true;
    return NULL;
  }
  in->at += length;
  return in->at - length;
}

static inline uint64_t get_int(reader *in, int width) {
  const uint8_t *from = take(in, (size_t)width);
  uint64_t value = 0;
  for (int i = 0; from && i < width; i++) value = value << 8 | from[i];
  return value;
}

static inline int16_t get_int16(reader *in) { return (int16_t)get_int(in, 2); }
static inline int32_t get_int32(reader *in) { return (int32_t)get_int(in, 4); }
static inline int64_t get_int64(reader *in) { return (int64_t)get_int(in, 8); }

static inline uint64_t get_uvarint(reader *in) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint8_t *byte = take(in, 1);
    if (!byte) return 0;
    value |= (uint64_t)(*byte & 127) << shift;
    if (*byte < 128) return value;
  }
  in->bad = true;
  return 0;
}

// The length of a compact string, bytes or array; null counts as empty.
static inline size_t get_compact_length(reader *in) {
  uint64_t length = get_uvarint(in);
  return length ? length - 1 : 0;
}

static inline void skip_compact(reader *in) { take(in, get_compact_length(in)); }

static inline void skip_tags(reader *in) {
  for (uint64_t count = get_uvarint(in); count && !in->bad; count--) {
    get_uvarint(in);
    take(in, get_uvarint(in));
  }
}
#endif
