/* SPDX-License-Identifier: BSD-2-Clause */
/* Texts of /proc and the cgroup file systems. */
#include "base/procfile.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/meta.h"

#define TEXT_BYTES ((size_t)256 * 1024) /* enough for many mounts; unused pages of it are not resident */
static char *read_text;

static int open_file(const char *root, const char *directory, const char *file)
{
    char path[2 * FILE_PATH_BYTES];
    int n = snprintf(path, sizeof path, "%s%s/%s", root, directory, file);
    return n < 0 || (size_t)n >= sizeof path ? -1 : descriptor_open(path, O_RDONLY, 0);
}

/* The text of a file, or its beginning. */
static const char *read_descriptor(int fd)
{
    size_t n = 0;
    ssize_t more = 1;
    if (!read_text && !(read_text = meta_map(TEXT_BYTES)))
        return NULL;
    while (n < TEXT_BYTES - 1 && (more = pread(fd, read_text + n, TEXT_BYTES - 1 - n, (off_t)n)) > 0)
        n += (size_t)more;
    read_text[n] = '\0';
    return more < 0 ? NULL : read_text;
}

const char *file_text(const char *root, const char *directory, const char *file)
{
    int fd = open_file(root, directory, file);
    const char *text = fd < 0 ? NULL : read_descriptor(fd);
    if (fd >= 0)
        close(fd);
    return text;
}

static bool is_still_it(const struct procfile *k)
{
    struct stat now;
    return k->fd && fstat(k->fd, &now) == 0 && now.st_dev == k->device && now.st_ino == k->inode;
}

const char *procfile_text(struct procfile *k, const char *root, const char *directory, const char *file)
{
    struct stat status;
    if (!is_still_it(k)) {
        int fd = open_file(root, directory, file);
        k->fd = 0;
        if (fd <= 0 || fstat(fd, &status)) {
            if (fd >= 0)
                close(fd);
            return NULL;
        }
        *k = (struct procfile){fd, status.st_dev, status.st_ino};
    }
    return read_descriptor(k->fd);
}

void procfile_close(struct procfile *k)
{
    if (is_still_it(k))
        close(k->fd);
    k->fd = 0;
}

/* ---- Texts ---- */

uint64_t text_number(const char *text)
{
    return text && *text >= '0' && *text <= '9' ? strtoull(text, NULL, 10) : UINT64_MAX;
}

uint64_t text_value(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (; text; text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL)
        if (!strncmp(text, key, n))
            return strtoull(text + n, NULL, 10);
    return 0;
}

const char *text_field(const char *line, unsigned number, size_t *bytes)
{
    while (--number)
        line += strcspn(line, " \n"), line += *line == ' ';
    *bytes = strcspn(line, " \n");
    return line;
}
