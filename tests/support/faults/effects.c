/* LD_PRELOAD: counts the effects that a process has on files below a prefix, and ends it or fails the effect at one.

   effects_arm(n, number, lasts, prefix, but): before the n-th effect (from 1) the process is killed where number is 0,
   else the call fails with errno number; and so does every later one where lasts. What has `but` in its path is not
   counted. effects_seen() says how many there were. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int at, number, lasts, seen;
static char prefix[4096], spared[256];

void effects_arm(int n, int error, int for_good, const char *below, const char *but) {
    at = n, number = error, lasts = for_good, seen = 0;
    snprintf(prefix, sizeof prefix, "%s", below);
    snprintf(spared, sizeof spared, "%s", but);
}

int effects_seen(void) { return seen; }

static int stopped(const char *path) {
    if (!at || strncmp(path, prefix, strlen(prefix)) || (*spared && strstr(path, spared))) return 0;
    seen++;
    if (seen != at && !(lasts && seen > at)) return 0;
    if (!number) kill(getpid(), SIGKILL);
    errno = number;
    return 1;
}

static int stopped_in(int folder, const char *name) {
    char link[64], path[8192];
    if (name[0] == '/') return stopped(name);
    if (folder == AT_FDCWD) return 0; /* relative to the test's own folder, which nothing here uses */
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    ssize_t length = readlink(link, path, 4095);
    if (length < 0) return 0;
    snprintf(path + length, sizeof path - length, "/%s", name);
    return stopped(path);
}

static int stopped_at(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return stopped(path);
}

#define CALL(type, name, where, parameters, arguments)                                       \
    type name parameters {                                                                   \
        static type(*real) parameters;                                                       \
        if (!real) real = (type(*) parameters)dlsym(RTLD_NEXT, #name);                       \
        if (where) return -1;                                                                \
        return real arguments;                                                               \
    }

#define OPENS(name)                                                                          \
    int name(const char *path, int flags, ...) {                                             \
        static int (*real)(const char *, int, ...);                                          \
        va_list rest;                                                                        \
        va_start(rest, flags);                                                               \
        mode_t mode = va_arg(rest, mode_t);                                                  \
        va_end(rest);                                                                        \
        if (!real) real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name);          \
        if ((flags & (O_CREAT | O_TRUNC)) && stopped(path)) return -1;                       \
        return real(path, flags, mode);                                                      \
    }

/* A killed process leaves behind what it wrote, synced or not: the disk is not asked, which is slow. */
#define SYNCS(name)                                                                          \
    int name(int fd) {                                                                       \
        static int (*real)(int);                                                             \
        if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, #name);                             \
        if (stopped_at(fd)) return -1;                                                       \
        return at ? 0 : real(fd);                                                            \
    }

OPENS(open)
OPENS(open64)
CALL(ssize_t, write, stopped_at(fd), (int fd, const void *data, size_t count), (fd, data, count))
CALL(ssize_t, pwrite, stopped_at(fd), (int fd, const void *data, size_t count, off_t to), (fd, data, count, to))
CALL(ssize_t, pwrite64, stopped_at(fd), (int fd, const void *data, size_t count, off64_t to), (fd, data, count, to))
SYNCS(fsync)
SYNCS(fdatasync)
CALL(int, ftruncate, stopped_at(fd), (int fd, off_t size), (fd, size))
CALL(int, ftruncate64, stopped_at(fd), (int fd, off64_t size), (fd, size))
CALL(int, link, stopped(to), (const char *from, const char *to), (from, to))
CALL(int, linkat, stopped_in(into, to), (int in, const char *from, int into, const char *to, int flags),
     (in, from, into, to, flags))
CALL(int, rename, stopped(from), (const char *from, const char *to), (from, to))
CALL(int, renameat, stopped_in(in, from), (int in, const char *from, int into, const char *to), (in, from, into, to))
CALL(int, mkdir, stopped(path), (const char *path, mode_t mode), (path, mode))
CALL(int, mkdirat, stopped_in(in, path), (int in, const char *path, mode_t mode), (in, path, mode))
CALL(int, unlink, stopped(path), (const char *path), (path))
CALL(int, rmdir, stopped(path), (const char *path), (path))
CALL(int, unlinkat, stopped_in(in, path), (int in, const char *path, int flags), (in, path, flags))
