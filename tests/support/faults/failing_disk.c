/* LD_PRELOAD: a disk that fails. The file $DISK_FAULT_FILE says "<errno> <what> <prefix>": calls of that kind (1 fsync,
   2 write, 3 both) on files below prefix fail with errno; an empty file means that all is well. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SYNC = 1, WRITE = 2 };

static int fault(int fd, int kind) {
    const char *name = getenv("DISK_FAULT_FILE");
    FILE *file = name ? fopen(name, "r") : NULL;
    char prefix[4096], link[64], path[4096];
    int number = 0, what = 0, read = 0;
    if (!file) return 0;
    read = fscanf(file, "%d %d %4095s", &number, &what, prefix);
    fclose(file);
    if (read != 3 || !(what & kind)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strncmp(path, prefix, strlen(prefix)) == 0 ? number : 0;
}

#define REAL(type, name, ...)                                       \
    static type (*real)(__VA_ARGS__);                               \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

#define FAIL(fd, kind)                          \
    do {                                        \
        int number = fault(fd, kind);           \
        if (number) {                           \
            errno = number;                     \
            return -1;                          \
        }                                       \
    } while (0)

#define SYNCS(name)             \
    int name(int fd) {          \
        REAL(int, #name, int);  \
        FAIL(fd, SYNC);         \
        return real(fd);        \
    }

#define WRITES(name)                                                               \
    ssize_t name(int fd, const struct iovec *parts, int count, off_t position) {   \
        REAL(ssize_t, #name, int, const struct iovec *, int, off_t);               \
        FAIL(fd, WRITE);                                                           \
        return real(fd, parts, count, position);                                   \
    }

#define WRITES2(name)                                                                         \
    ssize_t name(int fd, const struct iovec *parts, int count, off_t position, int flags) {   \
        REAL(ssize_t, #name, int, const struct iovec *, int, off_t, int);                     \
        FAIL(fd, WRITE);                                                                      \
        return real(fd, parts, count, position, flags);                                       \
    }

SYNCS(fsync)
SYNCS(fdatasync)
WRITES(pwritev)
WRITES(pwritev64)
WRITES2(pwritev2)
WRITES2(pwritev64v2)
