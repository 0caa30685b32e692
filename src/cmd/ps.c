/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan ps`: the processes that have jespan in them, and who holds their memory. */
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "options.h"
#include "sidecar/ending.h"
#include "snapshot/view.h"
#include "text.h"

#define NAME_BYTES 16 /* of /proc/PID/comm in proc(5) */

struct process {
    pid_t pid;
    const char *reason; /* why it cannot be read; NULL: it was read */
    struct line_holder holder;
    uint64_t resident_bytes; /* 0: unknown */
    char name[NAME_BYTES];
};

struct processes {
    struct process *rows;
    size_t n, room;
};

/* ---- Reading them ---- */

static size_t read_file(pid_t pid, const char *name, char *to, size_t bytes)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(to, 1, bytes - 1, file) : 0;
    if (file)
        fclose(file);
    to[n] = '\0';
    return n;
}

/* The second number of /proc/PID/statm in proc(5): resident pages. */
static uint64_t resident_bytes(pid_t pid)
{
    char text[128], *at;
    read_file(pid, "statm", text, sizeof text);
    strtoull(text, &at, 10);
    return strtoull(at, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void read_books(struct process *p, struct view *view)
{
    struct snapshot *s = view_snapshot(view, NULL);
    p->reason = s ? NULL : view_error_text(errno);
    if (s)
        line_find_holder(&p->holder, s);
    snapshot_free(s);
}

/* Returns whether the process belongs in the table. One that may not be read may have jespan or not: it does not. */
static bool read_process(struct process *p, pid_t pid)
{
    struct view *view;
    int error = view_open(&view, pid);
    if (error && error != -EAGAIN && error != -EPROTONOSUPPORT && error != -EBADMSG)
        return false;
    *p = (struct process){.pid = pid, .reason = error ? view_error_text(error) : NULL};
    if (!error) {
        read_books(p, view);
        view_close(view);
    }
    p->resident_bytes = resident_bytes(pid);
    size_t n = read_file(pid, "comm", p->name, sizeof p->name);
    if (n && p->name[n - 1] == '\n')
        p->name[n - 1] = '\0';
    return true;
}

static bool add_process(struct processes *all, pid_t pid)
{
    if (all->n == all->room) {
        size_t room = 2 * all->room + 16;
        struct process *rows = reallocarray(all->rows, room, sizeof *rows);
        if (!rows)
            return false;
        all->rows = rows;
        all->room = room;
    }
    all->n += read_process(&all->rows[all->n], pid);
    return true;
}

/* Returns NULL, or the reason in words why it fails. */
static const char *read_all(struct processes *all)
{
    DIR *proc = opendir("/proc");
    if (!proc)
        return strerror(errno);
    const char *reason = "has no processes; is it mounted?";
    for (struct dirent *entry; (entry = readdir(proc));) {
        pid_t pid = cmd_pid(entry->d_name);
        if (pid == getpid()) {
            reason = NULL;
        } else if (pid && !add_process(all, pid)) {
            reason = strerror(ENOMEM);
            break;
        }
    }
    closedir(proc);
    return reason;
}

/* Most bytes in use first. */
static int compare(const void *a, const void *b)
{
    const struct process *x = a, *y = b;
    return x->holder.all_bytes != y->holder.all_bytes ? (x->holder.all_bytes < y->holder.all_bytes ? 1 : -1)
                                                      : (x->pid > y->pid) - (x->pid < y->pid);
}

/* ---- The table ---- */

static void print_process(const struct process *p)
{
    static struct text text;
    char figure[FIGURE_BYTES], columns[2 * FIGURE_BYTES + 64], in_use[FIGURE_BYTES] = "-", resident[FIGURE_BYTES] = "-";
    if (!p->reason)
        figure_bytes(in_use, (int64_t)p->holder.all_bytes, false);
    if (p->resident_bytes)
        figure_bytes(resident, (int64_t)p->resident_bytes, false);
    snprintf(columns, sizeof columns, "%7d  %9s  %9s  ", (int)p->pid, in_use, resident);
    text_clear(&text);
    text_add(&text, columns);
    size_t begin = text.n;
    text_add_bytes(&text, p->name, strlen(p->name), NAME_BYTES);
    while (text.n < begin + NAME_BYTES + 1)
        text_add(&text, " ");
    if (p->reason) {
        text_add(&text, p->reason);
    } else if (p->holder.bytes) {
        text_add_bytes(&text, p->holder.path, strlen(p->holder.path), sizeof p->holder.path);
        figure_bytes(figure, (int64_t)p->holder.bytes, false);
        text_add(&text, " (");
        text_add(&text, figure);
        text_add(&text, ")");
    }
    text_print(&text);
    putchar('\n');
}

static void print_all(struct processes *all)
{
    if (all->n)
        qsort(all->rows, all->n, sizeof *all->rows, compare);
    printf("%7s  %9s  %9s  %-*s %s\n", "PID", "IN USE", "RESIDENT", NAME_BYTES, "PROGRAM", "MOST OF IT IN");
    for (size_t i = 0; i < all->n; i++)
        print_process(&all->rows[i]);
}

static int run(int argc, char **argv)
{
    struct processes all = {0};
    const struct cmd_option none[] = {{0}};
    int status = cmd_options(argc, argv, none, OPTIONS_ANYWHERE);
    if (status != OPTIONS_READ)
        return status;
    if (optind < argc) {
        cmd_error("unexpected word '%s'; see 'jespan help ps'", argv[optind]);
        return STATUS_USAGE;
    }
    text_init();
    const char *reason = read_all(&all);
    if (reason)
        cmd_error("/proc: %s", reason);
    else
        print_all(&all);
    free(all.rows);
    return reason ? STATUS_USAGE : cmd_finish_output();
}

const struct command command_ps = {
    .name = "ps",
    .summary = "list processes with jespan in them, and who holds their memory",
    .usage =
        "usage: jespan ps\n"
        "\n"
        "Lists the processes that have jespan in them, the one with most bytes in use\n"
        "first: bytes in use, resident memory, the program, and the context that has\n"
        "most bytes in use. Nothing in the processes is asked, stopped or signalled.\n"
        "\n"
        "Processes that the user may not read are left out; root sees all.\n"
        "\n"
        "Exit status: 0; 1 the output could not be written; 2 wrong command line, or\n"
        "/proc could not be read.\n",
    .run = run,
};
