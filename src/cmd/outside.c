/* SPDX-License-Identifier: BSD-2-Clause */
/* Dumps of a process, made from outside. */
#include "outside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "snapshot/view.h"

EXPORTER_DEFINE(pprof);

struct descriptor_sink {
    struct exporter_sink sink;
    int fd;
};

static int write_all(struct exporter_sink *sink, const void *data, size_t bytes)
{
    const struct descriptor_sink *to = (const struct descriptor_sink *)sink;
    for (const char *at = data; bytes;) {
        ssize_t n = write(to->fd, at, bytes);
        if (n < 0 && errno != EINTR)
            return -errno;
        at += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

pid_t outside_pid(const char *word)
{
    char *end;
    errno = 0;
    long number = strtol(word, &end, 10);
    return word[0] >= '1' && word[0] <= '9' && !*end && !errno && number == (pid_t)number ? (pid_t)number : 0;
}

const char *outside_dump(pid_t pid, enum exporter_profile profile, int fd)
{
    struct view *view;
    struct descriptor_sink to = {{write_all, NULL}, fd};
    int error = view_open(&view, pid);
    if (error)
        return view_error_text(error);
    struct snapshot *s = view_snapshot(view, NULL);
    const char *reason = s ? NULL : view_error_text(errno);
    error = s ? jespan_exporter_pprof.encode(s, profile, &to.sink) : 0;
    snapshot_free(s);
    view_close(view);
    return reason || !error ? reason : strerror(-error);
}
