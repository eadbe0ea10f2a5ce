/* LD_PRELOAD: fsync and fdatasync take as many milliseconds longer as the file $SYNC_DELAY_FILE says. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void delay(void) {
    const char *name = getenv("SYNC_DELAY_FILE");
    FILE *file = name ? fopen(name, "r") : NULL;
    int milliseconds = 0;
    if (file) {
        if (fscanf(file, "%d", &milliseconds) != 1) milliseconds = 0;
        fclose(file);
    }
    if (milliseconds > 0) usleep((useconds_t)milliseconds * 1000);
}

#define SLOW(name)                                           \
    int name(int fd) {                                       \
        static int (*real)(int);                             \
        if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, #name); \
        delay();                                             \
        return real(fd);                                     \
    }

SLOW(fsync)
SLOW(fdatasync)
