// Latencies in nanoseconds, counted in buckets that are at most 1.6 % wide: memory is constant, whatever the number of requests.
#ifndef HISTOGRAM_H
#define HISTOGRAM_H
#include <stdint.h>

enum { SUB_BITS = 6, BUCKETS = (64 - SUB_BITS + 1) << SUB_BITS };

typedef struct {
  uint64_t counts[BUCKETS], total, max;
} histogram;

static inline int bucket_of(uint64_t value) {
  if (value < 1u << SUB_BITS) return (int)value;
  int shift = 63 - SUB_BITS - __builtin_clzll(value);
  return ((shift + 1) << SUB_BITS) + (int)(value >> shift) - (1 << SUB_BITS);
}

// The middle of the bucket.
static inline double value_of(int bucket) {
  int shift = (bucket >> SUB_BITS) - 1;
  if (shift < 0) return bucket;
  return (double)((uint64_t)((bucket & ((1 << SUB_BITS) - 1)) + (1 << SUB_BITS)) << shift) + (double)(1ull << shift) / 2;
}

static inline void record_latency(histogram *into, uint64_t value) {
  into->counts[bucket_of(value)]++;
  into->total++;
  if (value > into->max) into->max = value;
}

static inline double percentile(const histogram *of, double fraction) {
  uint64_t seen = 0, wanted = (uint64_t)(fraction * (double)of->total);
  for (int bucket = 0; bucket < BUCKETS; bucket++)
    if ((seen += of->counts[bucket]) > wanted) return value_of(bucket);
  return (double)of->max;
}
#endif
