/* SPDX-License-Identifier: BSD-2-Clause */
/* A file of events. */
#include "events_out.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"

#define NS_PER_MS 1000000u
#define READER_IDLE_NS (10000ull * NS_PER_MS) /* the reader of a FIFO must take some bytes in this time */
#define STOP_MARGIN_NS (200ull * NS_PER_MS)   /* left to say what is missing, and to end */

#define FILE_SAY(f, ...) (f)->host->say((const char *const[]){__VA_ARGS__, NULL})

void events_file_open(struct events_file *f, const struct service_host *host, const char *path, uint64_t max_bytes)
{
    uint64_t first = host->conf->dump_at_exit_pid;
    *f = (struct events_file){.host = host, .fd = -1, .max_bytes = max_bytes};
    if (path[0] == '\0')
        return;
    if (first != 0 && first != (uint64_t)host->pid)
        snprintf(f->path, sizeof f->path, "%s.%d", path, (int)host->pid);
    else
        snprintf(f->path, sizeof f->path, "%s", path);
}

static void give_up(struct events_file *f)
{
    f->is_broken = true;
    f->n = 0;
}

static void fail(struct events_file *f, int error)
{
    const char *why = error == ENXIO ? "nobody reads it" : strerrordesc_np(error); /* a FIFO */
    FILE_SAY(f, f->path, ": ", why, f->fd < 0 ? "; it is not written" : "; nothing more is written to it");
    give_up(f);
}

/* The program may have closed all descriptors. Then the number may be that of a file of its own. */
static bool is_own(struct events_file *f)
{
    if (f->host->has_descriptors(f->host))
        return true;
    FILE_SAY(f, f->path, ": the program has closed all descriptors; nothing more is written to it");
    f->fd = -1;
    give_up(f);
    return false;
}

/* Regular files and pipes that have a reader. A FIFO without one would block. */
static bool is_open(struct events_file *f, int truncate)
{
    if (f->fd >= 0 || f->is_broken)
        return f->fd >= 0;
    f->fd = descriptor_open(f->path, O_WRONLY | O_CREAT | truncate | O_NOCTTY | O_NONBLOCK, 0666);
    if (f->fd < 0)
        fail(f, errno);
    return f->fd >= 0;
}

bool events_file_touch(struct events_file *f)
{
    return is_open(f, 0);
}

bool events_file_is_empty(const struct events_file *f)
{
    struct stat status;
    return fstat(f->fd, &status) != 0 || status.st_size == 0;
}

/* Until when the reader of a full FIFO may take its time. A program that ends waits for its last events. */
static uint64_t reader_until_ns(const struct events_file *f, uint64_t idle_until_ns)
{
    uint64_t stop_ns = f->host->stop_by_ns(f->host);
    if (stop_ns == 0)
        return idle_until_ns;
    stop_ns = stop_ns > STOP_MARGIN_NS ? stop_ns - STOP_MARGIN_NS : 0;
    return stop_ns < idle_until_ns ? stop_ns : idle_until_ns;
}

/* A FIFO or a terminal is full. Threads of the program go on meanwhile, so events may be overwritten, which are counted. */
static bool wait_for_reader(struct events_file *f)
{
    uint64_t idle_until_ns = clock_ns(CLOCK_MONOTONIC) + READER_IDLE_NS;
    for (;;) {
        uint64_t now = clock_ns(CLOCK_MONOTONIC), until = reader_until_ns(f, idle_until_ns);
        bool is_stopping = f->host->stop_by_ns(f->host) != 0;
        struct pollfd fds[] = {{.fd = f->fd, .events = POLLOUT}, {.fd = is_stopping ? -1 : f->host->stop_fd, .events = POLLIN}};
        if (now >= until) {
            FILE_SAY(f, f->path, ": its reader is too slow; nothing more is written to it");
            give_up(f);
            return false;
        }
        poll(fds, 2, (int)((until - now) / NS_PER_MS) + 1);
        if (!is_own(f))
            return false;
        if (fds[0].revents != 0)
            return true;
    }
}

void events_file_flush(struct events_file *f)
{
    size_t done = 0;
    if (f->n == 0 || (f->fd >= 0 && !is_own(f)) || !is_open(f, O_TRUNC))
        return;
    while (done < f->n) {
        ssize_t n = write(f->fd, f->buffer + done, f->n - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            if (!wait_for_reader(f))
                return;
            continue;
        }
        if (n < 0) {
            fail(f, errno);
            return;
        }
        done += (size_t)n;
    }
    f->n = 0;
}

char *events_file_line(struct events_file *f)
{
    if (!events_file_is_wanted(f))
        return NULL;
    f->is_full |= f->bytes + EVENTS_PIECE_BYTES > f->max_bytes;
    if (!f->is_full && f->n + 2 * EVENTS_PIECE_BYTES > sizeof f->buffer)
        events_file_flush(f);
    f->left_out += f->is_full && !f->is_broken;
    return f->is_full || f->is_broken ? NULL : f->buffer + f->n;
}

void events_file_added(struct events_file *f, const char *end)
{
    size_t n = (size_t)(end - f->buffer) - f->n;
    f->bytes += n;
    f->n += n;
}

void events_file_close(struct events_file *f, const char *last)
{
    size_t n = strlen(last);
    if (f->bytes > 0 && !f->is_broken && (f->fd >= 0 || f->n > 0)) {
        memcpy(f->buffer + f->n, last, n);
        f->n += n;
    }
    events_file_flush(f);
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}
