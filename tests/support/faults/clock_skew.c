/* LD_PRELOAD: the wall clock is as many seconds ahead as the double at the start of the file $CLOCK_SKEW_FILE says.

   The monotonic clocks stay what they are, as when somebody sets a host's date. The file is mapped once: a clock is
   read too often to open one each time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const double *skew;

__attribute__((constructor)) static void map(void) {
    const char *name = getenv("CLOCK_SKEW_FILE");
    int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *found = mmap(NULL, sizeof(double), PROT_READ, MAP_SHARED, fd, 0);
    if (found != MAP_FAILED) skew = found;
    close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && skew && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        long long nanoseconds = now->tv_sec * 1000000000LL + now->tv_nsec + (long long)(*skew * 1e9);
        now->tv_sec = nanoseconds / 1000000000LL;
        now->tv_nsec = nanoseconds % 1000000000LL;
    }
    return failed;
}

time_t time(time_t *seconds) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (seconds) *seconds = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *time, void *zone) {
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}
