/* SPDX-License-Identifier: BSD-2-Clause */
/* Dumps of a process, made from outside. */
#include "outside.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "console/command.h"
#include "report/dump_series.h"
#include "snapshot/core_file.h"
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

/* The snapshot is this process's own copy, so its rows may be changed. */
void outside_keep_outlived(struct outside *o)
{
    struct snapshot_row *rows = (struct snapshot_row *)(uintptr_t)o->snapshot->rows;
    for (uint32_t i = 0; i < o->snapshot->n_rows; i++)
        if (rows[i].kind != CONTEXT_SPAN || rows[i].totals.outlived_bytes == 0) {
            rows[i].totals = (struct totals){0};
            rows[i].first_stack = 0;
        }
}

/* Estimates of the stacks that are left may be more than their context has in the periods that are left. */
static void keep_stacks(const struct snapshot *s, struct snapshot_row *row, uint64_t age_ns)
{
    struct totals sum = {.outlived_bytes = row->totals.outlived_bytes};
    for (uint32_t i = row->first_stack; i; i = s->stacks[i - 1].next) {
        struct snapshot_stack *stack = (struct snapshot_stack *)(uintptr_t)&s->stacks[i - 1];
        if (stack->oldest_ns < age_ns)
            stack->totals = (struct totals){0};
        totals_add(&sum, &stack->totals);
    }
    if (totals_inuse_bytes(&sum) > totals_inuse_bytes(&row->totals) || totals_inuse_objects(&sum) > totals_inuse_objects(&row->totals))
        row->totals = sum;
}

bool outside_keep_older(struct outside *o, int64_t age_s)
{
    uint64_t age_ns = age_s < INT64_MAX / 1000000000 ? (uint64_t)age_s * 1000000000 : UINT64_MAX;
    const struct snapshot *s = o->snapshot;
    struct snapshot_row *rows = (struct snapshot_row *)(uintptr_t)s->rows;
    if (!s->n_ages)
        return false;
    for (uint32_t i = 0; i < s->n_rows; i++)
        rows[i].totals = (struct totals){.outlived_bytes = rows[i].totals.outlived_bytes};
    for (uint32_t i = 0; i < s->n_ages; i++)
        if (s->ages[i].oldest_ns >= age_ns)
            totals_add(&rows[s->ages[i].row].totals, &s->ages[i].totals);
    for (uint32_t i = 0; i < s->n_rows; i++)
        keep_stacks(s, &rows[i], age_ns);
    return true;
}

static const char *read_view(struct outside *o, int error)
{
    if (error)
        return view_error_text(error);
    o->snapshot = view_snapshot(o->view, NULL);
    if (o->snapshot)
        return NULL;
    const char *reason = view_error_text(errno);
    outside_close(o);
    return reason;
}

const char *outside_read(struct outside *o, pid_t pid)
{
    *o = (struct outside){0};
    return read_view(o, view_open(&o->view, pid));
}

bool outside_is_core(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is_core = fd >= 0 && core_file_is(fd);
    if (fd >= 0)
        close(fd);
    return is_core;
}

const char *outside_read_core(struct outside *o, const char *path)
{
    *o = (struct outside){0};
    const char *reason = read_view(o, view_open_core(&o->view, path));
    if (!reason && view_is_incomplete(o->view))
        cmd_warning("%s had no room for all figures; it is incomplete", path);
    return reason;
}

int outside_write(const struct outside *o, enum exporter_profile profile, int fd)
{
    struct descriptor_sink to = {{write_all, NULL}, fd};
    return jespan_exporter_pprof.encode(o->snapshot, profile, &to.sink);
}

int outside_write_path(const struct outside *o, enum exporter_profile profile, const char *path)
{
    struct dump_series series = {0};
    const struct dump_source from = {.exporter = &jespan_exporter_pprof, .snapshot = o->snapshot};
    return dump_series_write_path(&series, &from, profile, path);
}

void outside_close(struct outside *o)
{
    snapshot_free(o->snapshot);
    view_close(o->view);
    *o = (struct outside){0};
}
