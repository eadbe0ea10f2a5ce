// Load client: a few connections that keep pre-encoded Produce or Fetch requests in flight, and one JSON line about what came back.
// Records are sent from one shared batch with gathered writes, never copied, so that the client costs less than what it measures.
// A connection belongs to one partition's leader. Fetch connections read what is there and begin again at its end.
// At a rate, latency counts from the moment a request was due, so a stall isn't hidden by the requests it kept back.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "histogram.h"
#include "protocol.h"

enum { MAX_PARTITIONS = 4096, MAX_PIDS = 256, MAX_GATHERED = 64, READ_AT_LEAST = 1 << 16, LONGEST_ANSWER = 1 << 28 };

typedef struct {
  uint8_t head[MAX_HEAD];
  size_t head_length;
  uint64_t due_ns;
} request;

typedef struct {
  int fd;
  int32_t partition;
  int64_t offset;                       // fetch: the next to read
  request *ring;                        // one slot per request in flight
  uint64_t queued, sent, answered;      // requests so far; sent counts whole ones
  size_t sent_bytes;                    // of the request being sent
  bool waits_to_write;
  uint8_t *in;
  size_t in_length, in_capacity;
} connection;

static struct {
  const char *host;
  char port[8];
  bool fetch, pin;
  int connections, in_flight;
  size_t record_size, batch_size;
  double seconds, warm_up, rate;
  uint64_t requests;
  pid_t pids[MAX_PIDS];
  int pid_count;
} option = {.host = "127.0.0.1", .port = "9092", .connections = 4, .in_flight = 5, .record_size = 1024, .seconds = 3, .warm_up = 0.5};

static dialect kafka = {.produce_version = 9, .fetch_version = 12, .acks = 1, .fetch_max_wait_ms = 500, .fetch_min_bytes = 1, .fetch_max_bytes = 1 << 20};
static partition_leader leaders[MAX_PARTITIONS];
static int partition_count, records_per_batch, epoll_fd, timer_fd;
static uint8_t *body;                   // records and tail, the same for every request
static size_t body_length, batch_length;
static connection *connections;
static uint64_t queued_total, answered_total;

static struct {
  uint64_t from_ns, requests, bytes, records;
  double client_cpu, server_cpu;
  histogram latency;
} window;                               // what is measured: everything from the end of the warm-up

static _Noreturn void __attribute__((format(printf, 1, 2))) fail(const char *format, ...) {
  va_list values;
  va_start(values, format);
  fprintf(stderr, "load: ");
  vfprintf(stderr, format, values);
  fprintf(stderr, "\n");
  va_end(values);
  exit(1);
}

static void *need(void *memory) {
  if (!memory) fail("out of memory");
  return memory;
}

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double client_cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// The scheduler's sum of run times over all threads of the servers, ended threads too: exact where utime and stime are ticks.
static double server_cpu_seconds(void) {
  double sum = 0;
  for (int i = 0; i < option.pid_count; i++) {
    clockid_t clock;
    struct timespec t;
    if (!clock_getcpuclockid(option.pids[i], &clock) && !clock_gettime(clock, &t)) sum += (double)t.tv_sec + (double)t.tv_nsec / 1e9;
  }
  return sum;
}

static int connect_to(const char *host, const char *port) {
  struct addrinfo *found, hints = {.ai_socktype = SOCK_STREAM};
  int problem = getaddrinfo(host, port, &hints, &found), fd = -1, on = 1;
  if (problem) fail("%s:%s: %s", host, port, gai_strerror(problem));
  for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
    fd = socket(a->ai_family, SOCK_STREAM, 0);
    if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen)) {
      close(fd);
      fd = -1;
    }
  }
  if (fd < 0) fail("%s:%s: %s", host, port, strerror(errno));
  freeaddrinfo(found);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

static void receive_all(int fd, uint8_t *into, size_t length) {
  while (length) {
    ssize_t n = recv(fd, into, length, 0);
    if (n <= 0) fail("connection lost while reading Metadata: %s", n ? strerror(errno) : "closed by the server");
    into += n;
    length -= (size_t)n;
  }
}

static void read_metadata(void) {
  uint8_t frame[MAX_HEAD], size[4];
  int fd = connect_to(option.host, option.port), error;
  size_t length = encode_metadata(frame, &kafka);
  if (send(fd, frame, length, MSG_NOSIGNAL) != (ssize_t)length) fail("can't send Metadata: %s", strerror(errno));
  receive_all(fd, size, 4);
  length = get_int((reader[]){{size, size + 4, false}}, 4);
  if (length > LONGEST_ANSWER) fail("a Metadata answer of %zu bytes", length);
  uint8_t *answer = need(malloc(length));
  receive_all(fd, answer, length);
  if (!decode_metadata((reader){answer, answer + length, false}, &kafka, leaders, MAX_PARTITIONS, &partition_count, &error))
    fail("can't understand the Metadata answer");
  if (error || partition_count < 1) fail("topic %s: error %d, %d partitions", kafka.topic, error, partition_count);
  free(answer);
  close(fd);
}

static void watch(connection *c, bool write) {
  if (c->waits_to_write == write) return;
  c->waits_to_write = write;
  struct epoll_event event = {.events = EPOLLIN | (write ? EPOLLOUT : 0), .data.ptr = c};
  epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &event);
}

static request *slot(connection *c, uint64_t number) { return &c->ring[number % (uint64_t)option.in_flight]; }

// Of a number of requests each connection has its share, however fast the others are: partitions get as much of a topic that is filled.
static bool may_queue(const connection *c) {
  uint64_t share = (option.requests + (uint64_t)option.connections - 1) / (uint64_t)option.connections;
  if (option.requests && (queued_total >= option.requests || c->queued >= share)) return false;
  return c->queued - c->answered < (uint64_t)option.in_flight;
}

static void queue(connection *c, uint64_t due_ns) {
  request *r = slot(c, c->queued);
  if (option.fetch) r->head_length = encode_fetch(r->head, &kafka, c->partition, c->offset);
  put_int(r->head + CORRELATION_AT, c->queued, 4);
  r->due_ns = due_ns;
  c->queued++;
  queued_total++;
}

static int gather(connection *c, struct iovec *pieces) {
  int count = 0;
  size_t skip = c->sent_bytes;
  for (uint64_t number = c->sent; number < c->queued && count < MAX_GATHERED - 1; number++) {
    request *r = slot(c, number);
    if (skip < r->head_length) pieces[count++] = (struct iovec){r->head + skip, r->head_length - skip};
    skip = skip > r->head_length ? skip - r->head_length : 0;
    if (body_length) pieces[count++] = (struct iovec){body + skip, body_length - skip};
    skip = 0;
  }
  return count;
}

static void flush_requests(connection *c) {
  struct iovec pieces[MAX_GATHERED];
  while (c->sent < c->queued) {
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = (size_t)gather(c, pieces)};
    ssize_t n = sendmsg(c->fd, &message, MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) return watch(c, true);
    if (n < 0) fail("send: %s", strerror(errno));
    c->sent_bytes += (size_t)n;
    for (size_t whole; c->sent < c->queued && c->sent_bytes >= (whole = slot(c, c->sent)->head_length + body_length); c->sent++) c->sent_bytes -= whole;
  }
  watch(c, false);
}

static void on_fetched(connection *c, reader answer) {
  fetched f;
  if (!decode_fetch(answer, &kafka, &f)) fail("can't understand a Fetch answer");
  if (f.error) fail("Fetch of %s-%d at %lld: error %d", kafka.topic, c->partition, (long long)c->offset, f.error);
  if (f.next_offset < 0 && c->offset == f.log_start_offset) fail("%s-%d has no whole batch within --fetch-max-bytes", kafka.topic, c->partition);
  c->offset = f.next_offset < 0 || f.next_offset >= f.high_watermark ? f.log_start_offset : f.next_offset;
  window.bytes += f.records_bytes;
  window.records += f.records;
}

static void on_produced(connection *c, reader answer) {
  int error;
  if (!decode_produce(answer, &kafka, &error)) fail("can't understand a Produce answer");
  if (error) fail("Produce to %s-%d: error %d", kafka.topic, c->partition, error);
  window.bytes += batch_length;
  window.records += (uint64_t)records_per_batch;
}

static void on_answer(connection *c, reader answer, uint64_t now) {
  uint32_t correlation_id = (uint32_t)get_int((reader[]){answer}, 4);
  if (c->answered == c->sent || correlation_id != (uint32_t)c->answered) fail("an answer that nobody asked for: correlation id %u", correlation_id);
  uint64_t due = slot(c, c->answered)->due_ns;
  c->answered++;
  answered_total++;
  if (option.fetch)
    on_fetched(c, answer);
  else
    on_produced(c, answer);
  window.requests++;
  record_latency(&window.latency, now - due);
}

// Handles the whole answers in the buffer and says how many more bytes the next one needs.
static size_t drain(connection *c) {
  size_t at = 0, length = 0;
  uint64_t now = now_ns();
  while (c->in_length - at >= 4) {
    length = 4 + get_int((reader[]){{c->in + at, c->in + at + 4, false}}, 4);
    if (length > LONGEST_ANSWER) fail("an answer of %zu bytes", length);
    if (c->in_length - at < length) break;
    on_answer(c, (reader){c->in + at + 4, c->in + at + length, false}, now);
    at += length;
    length = 0;
  }
  c->in_length -= at;
  if (at && c->in_length) memmove(c->in, c->in + at, c->in_length);
  return length > c->in_length ? length - c->in_length : 0;
}

static void on_readable(connection *c) {
  for (size_t missing = 0;;) {
    size_t want = missing > READ_AT_LEAST ? missing : READ_AT_LEAST;
    if (c->in_capacity - c->in_length < want) c->in = need(realloc(c->in, c->in_capacity = c->in_length + want));
    size_t room = c->in_capacity - c->in_length;
    ssize_t n = recv(c->fd, c->in + c->in_length, room, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) fail("connection lost: %s", n ? strerror(errno) : "closed by the server");
    c->in_length += (size_t)n;
    missing = drain(c);
    if ((size_t)n < room) return;
  }
}

static void refill(void) {
  uint64_t now = now_ns();
  for (connection *c = connections; c < connections + option.connections; c++) {
    if (!may_queue(c)) continue;
    while (may_queue(c)) queue(c, now);
    flush_requests(c);
  }
}

// Queues what is due, round robin, and sets the timer for the next; what finds every connection full waits for an answer.
static void refill_at_rate(uint64_t began) {
  static int turn;
  double interval = 1e9 / option.rate;
  for (;;) {
    uint64_t due = began + (uint64_t)((double)queued_total * interval);
    if (due > now_ns()) {
      struct itimerspec at = {.it_value = {(time_t)(due / 1000000000u), (long)(due % 1000000000u)}};
      timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
      return;
    }
    int tries = 0;
    while (tries < option.connections && !may_queue(&connections[turn % option.connections])) turn++, tries++;
    if (tries == option.connections) return;
    connection *c = &connections[turn++ % option.connections];
    queue(c, due);
    flush_requests(c);
  }
}

static void prepare(void) {
  if (!option.fetch) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint8_t *batch = build_batch(option.record_size, option.batch_size, (int64_t)t.tv_sec * 1000, &batch_length, &records_per_batch);
    body_length = batch_length + PRODUCE_TAIL;
    body = need(calloc(1, body_length));
    memcpy(body, batch, batch_length);
    free(batch);
  }
  connections = need(calloc((size_t)option.connections, sizeof *connections));
  for (int i = 0; i < option.connections; i++) {
    connection *c = &connections[i];
    char port[16];
    c->partition = i % partition_count;
    snprintf(port, sizeof port, "%d", leaders[c->partition].port);
    c->fd = option.pin ? connect_to(option.host, option.port) : connect_to(leaders[c->partition].host, port);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    c->ring = need(calloc((size_t)option.in_flight, sizeof *c->ring));
    for (int n = 0; n < option.in_flight && !option.fetch; n++)
      c->ring[n].head_length = encode_produce_head(c->ring[n].head, &kafka, c->partition, batch_length, PRODUCE_TAIL);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event);
  }
}

static void begin_window(uint64_t now) {
  memset(&window, 0, sizeof window);
  window.from_ns = now;
  window.client_cpu = client_cpu_seconds();
  window.server_cpu = server_cpu_seconds();
}

static void handle_events(int timeout_ms) {
  struct epoll_event events[64];
  int count = epoll_wait(epoll_fd, events, 64, timeout_ms);
  for (int i = 0; i < count; i++) {
    connection *c = events[i].data.ptr;
    uint64_t ignored;
    if (!c) {
      if (read(timer_fd, &ignored, sizeof ignored) < 0 && errno != EAGAIN) fail("timer: %s", strerror(errno));
      continue;
    }
    if (events[i].events & EPOLLOUT) flush_requests(c);
    if (events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP)) on_readable(c);
  }
}

static uint64_t run(void) {
  uint64_t began = now_ns(), now = began, measure_from = began + (uint64_t)(option.warm_up * 1e9), end = measure_from + (uint64_t)(option.seconds * 1e9);
  bool measuring = false;
  while (now < end && !(option.requests && answered_total >= option.requests)) {
    if (!measuring && now >= measure_from) {
      begin_window(now);
      measuring = true;
    }
    if (option.rate > 0)
      refill_at_rate(began);
    else
      refill();
    uint64_t until = (measuring ? end : measure_from) - now;
    handle_events((int)(until / 1000000) + 1);
    now = now_ns();
  }
  return now;
}

static void report(uint64_t now) {
  double seconds = (double)(now - window.from_ns) / 1e9, requests = window.requests ? (double)window.requests : 1;
  double server_us = (server_cpu_seconds() - window.server_cpu) * 1e6, client_us = (client_cpu_seconds() - window.client_cpu) * 1e6;
  histogram *h = &window.latency;
  printf("{\"seconds\": %.3f, \"requests\": %llu, \"bytes\": %llu, \"records\": %llu, ", seconds, (unsigned long long)window.requests,
         (unsigned long long)window.bytes, (unsigned long long)window.records);
  printf("\"requests_per_second\": %.1f, \"megabytes_per_second\": %.2f, ", (double)window.requests / seconds, (double)window.bytes / seconds / 1e6);
  printf("\"server_cpu_us\": %.2f, \"client_cpu_us\": %.2f, ", server_us / requests, client_us / requests);
  printf("\"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f}\n", percentile(h, 0.5) / 1e3, percentile(h, 0.99) / 1e3,
         percentile(h, 0.999) / 1e3, (double)h->max / 1e3);
}

static void read_pids(char *list) {
  for (char *pid = strtok(list, ","); pid && option.pid_count < MAX_PIDS; pid = strtok(NULL, ",")) option.pids[option.pid_count++] = atoi(pid);
}

static void read_address(char *address) {
  char *colon = strrchr(address, ':');
  if (!colon) fail("--address wants HOST:PORT, not %s", address);
  *colon = 0;
  option.host = address;
  snprintf(option.port, sizeof option.port, "%s", colon + 1);
}

static void read_options(int argc, char **argv) {
  enum { ADDRESS, TOPIC, MODE, PIN, CONNECTIONS, IN_FLIGHT, RECORD_SIZE, BATCH_SIZE, ACKS, SECONDS, WARM_UP, RATE, REQUESTS, PIDS, PRODUCE_VERSION, FETCH_VERSION, FETCH_MAX_BYTES, FETCH_MIN_BYTES, FETCH_MAX_WAIT };
  static const struct option known[] = {
      {"address", 1, 0, ADDRESS}, {"topic", 1, 0, TOPIC}, {"mode", 1, 0, MODE}, {"pin", 0, 0, PIN},
      {"connections", 1, 0, CONNECTIONS}, {"in-flight", 1, 0, IN_FLIGHT}, {"record-size", 1, 0, RECORD_SIZE}, {"batch-size", 1, 0, BATCH_SIZE},
      {"acks", 1, 0, ACKS}, {"seconds", 1, 0, SECONDS}, {"warm-up", 1, 0, WARM_UP}, {"rate", 1, 0, RATE}, {"requests", 1, 0, REQUESTS},
      {"pids", 1, 0, PIDS}, {"produce-version", 1, 0, PRODUCE_VERSION}, {"fetch-version", 1, 0, FETCH_VERSION},
      {"fetch-max-bytes", 1, 0, FETCH_MAX_BYTES}, {"fetch-min-bytes", 1, 0, FETCH_MIN_BYTES}, {"fetch-max-wait-ms", 1, 0, FETCH_MAX_WAIT}, {0}};
  for (int found; (found = getopt_long(argc, argv, "", known, NULL)) != -1;) switch (found) {
      case ADDRESS: read_address(optarg); break;
      case TOPIC: snprintf(kafka.topic, sizeof kafka.topic, "%s", optarg); break;
      case MODE: option.fetch = !strcmp(optarg, "fetch"); break;
      case PIN: option.pin = true; break;
      case CONNECTIONS: option.connections = atoi(optarg); break;
      case IN_FLIGHT: option.in_flight = atoi(optarg); break;
      case RECORD_SIZE: option.record_size = (size_t)atoll(optarg); break;
      case BATCH_SIZE: option.batch_size = (size_t)atoll(optarg); break;
      case ACKS: kafka.acks = atoi(optarg); break;
      case SECONDS: option.seconds = atof(optarg); break;
      case WARM_UP: option.warm_up = atof(optarg); break;
      case RATE: option.rate = atof(optarg); break;
      case REQUESTS: option.requests = (uint64_t)atoll(optarg); break;
      case PIDS: read_pids(optarg); break;
      case PRODUCE_VERSION: kafka.produce_version = atoi(optarg); break;
      case FETCH_VERSION: kafka.fetch_version = atoi(optarg); break;
      case FETCH_MAX_BYTES: kafka.fetch_max_bytes = atoi(optarg); break;
      case FETCH_MIN_BYTES: kafka.fetch_min_bytes = atoi(optarg); break;
      case FETCH_MAX_WAIT: kafka.fetch_max_wait_ms = atoi(optarg); break;
      default: exit(2);
    }
  if (!kafka.topic[0] || option.connections < 1 || option.in_flight < 1) fail("--topic is needed, and at least one connection and request in flight");
  if (kafka.acks == 0) fail("--acks 0 has no answers to measure");
  if (kafka.produce_version < 9 || kafka.produce_version > 13 || kafka.fetch_version < 12 || kafka.fetch_version > 17)
    fail("Produce v9-13 and Fetch v12-17 only");
  if (option.fetch) option.in_flight = 1;  // the next offset is known from the answer
}

int main(int argc, char **argv) {
  read_options(argc, argv);
  epoll_fd = epoll_create1(0);
  timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &event);
  read_metadata();
  prepare();
  begin_window(now_ns());
  report(run());
}
