/* LD_PRELOAD: fsync and fdatasync take as many milliseconds longer as the file $SYNC_DELAY_FILE says, and so does a
   pread of a file named *.log with the second number there. What waits already goes on as soon as the file says less. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEP_MS = 10 };

static int told_ms(int reads) {
    const char *name = getenv("SYNC_DELAY_FILE");
    FILE *file = name ? fopen(name, "r") : NULL;
    int numbers[2] = {0, 0};
    if (file) {
        if (fscanf(file, "%d %d", &numbers[0], &numbers[1]) != 2) numbers[0] = numbers[1] = 0;
        fclose(file);
    }
    return numbers[reads];
}

static void delay(int reads) {
    for (int waited_ms = 0; waited_ms < told_ms(reads); waited_ms += STEP_MS) usleep(STEP_MS * 1000);
}

#define SLOW(name)                                           \
    int name(int fd) {                                       \
        static int (*real)(int);                             \
        if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, #name); \
        delay(0);                                            \
        return real(fd);                                     \
    }

SLOW(fsync)
SLOW(fdatasync)

static int is_log(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path);
    return length > 4 && !memcmp(path + length - 4, ".log", 4);
}

ssize_t pread64(int fd, void *buffer, size_t count, off64_t offset) {
    static ssize_t (*real)(int, void *, size_t, off64_t);
    if (!real) real = (ssize_t (*)(int, void *, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");
    if (is_log(fd)) delay(1);
    return real(fd, buffer, count, offset);
}
