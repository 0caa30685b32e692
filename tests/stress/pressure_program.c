/* SPDX-License-Identifier: BSD-2-Clause */
/* For pressure.sh: holds 8 MiB in the span "index", and reads a file again and again by mapping it, until it is killed.
 *
 *   pressure_program FILE
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jespan/jespan.h>

#define INDEX_BYTES ((size_t)8 << 20)

static void *volatile held;

static void fill_index(void)
{
    JESPAN("index");
    held = malloc(INDEX_BYTES);
    if (held != NULL)
        memset(held, 1, INDEX_BYTES);
}

int main(int argc, char **argv)
{
    struct stat status;
    int fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;
    if (fd < 0 || fstat(fd, &status) != 0)
        return 2;
    fill_index();
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* so that this cgroup pays for what is read from here on */
    size_t bytes = (size_t)status.st_size;
    volatile const char *data = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED)
        return 2;
    for (;;)
        for (size_t at = 0; at < bytes; at += 4096)
            (void)data[at];
}
