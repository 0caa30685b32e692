/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes files so that none is left half written. */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"

typedef int write_file(FILE *to, const void *data);

static int write_and_close(int fd, write_file *write, const void *data)
{
    FILE *to = fd < 0 ? NULL : fdopen(fd, "w");
    int error = to ? write(to, data) : -errno;
    if (fd >= 0 && !to)
        close(fd);
    return to && fclose(to) != 0 && error == 0 ? -errno : error;
}

/* A new file has the mode that open(2) gives, another one keeps its own. */
static mode_t mode_for(const char *path)
{
    struct stat status;
    mode_t mask = umask(0);
    umask(mask);
    return stat(path, &status) == 0 ? status.st_mode & 0777 : 0666 & ~mask;
}

static int replace_file(const char *path, write_file *write, const void *data)
{
    char temporary[PATH_MAX], place[PATH_MAX];
    if (!realpath(path, place) && snprintf(place, sizeof place, "%s", path) >= (int)sizeof place)
        return -ENAMETOOLONG;
    if (snprintf(temporary, sizeof temporary, "%s.XXXXXX", place) >= (int)sizeof temporary)
        return -ENAMETOOLONG;
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return -errno;
    fchmod(fd, mode_for(place));
    int error = write_and_close(fd, write, data);
    if (error == 0 && rename(temporary, place) != 0)
        error = -errno;
    if (error != 0)
        unlink(temporary);
    return error;
}

static int write_to_output(write_file *write, const void *data)
{
    int error = write(stdout, data);
    return error == 0 && (fflush(stdout) != 0 || ferror(stdout)) ? -(errno ? errno : EIO) : error;
}

int cmd_write_file(const char *path, write_file *write, const void *data)
{
    struct stat status;
    bool is_output = strcmp(path, "-") == 0, is_special = stat(path, &status) == 0 && !S_ISREG(status.st_mode);
    errno = 0;
    int error = is_output  ? write_to_output(write, data)
              : is_special ? write_and_close(open(path, O_WRONLY | O_CLOEXEC), write, data)
                           : replace_file(path, write, data);
    return error == 0 ? 0 : cmd_fail(is_output ? "cannot write the output" : path, strerror(-error), STATUS_WRITE);
}
