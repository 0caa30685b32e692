/* SPDX-License-Identifier: BSD-2-Clause */
/* `jespan ps`: the processes that have jespan in them, who holds their memory, and which sidecar serves them. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/process_stat.h"
#include "console/command.h"
#include "console/options.h"
#include "console/text.h"
#include "sidecar/ending.h"
#include "snapshot/view.h"

#define NAME_BYTES 16 /* of /proc/PID/comm in proc(5) */

struct process {
    pid_t pid, sidecar; /* 0: none */
    const char *reason; /* why it cannot be read; NULL: it was read */
    struct line_holder holder;
    uint64_t resident_bytes; /* 0: unknown */
    char name[NAME_BYTES];
};

struct served_by {
    pid_t pid, sidecar;
};

struct processes {
    struct process *rows;
    size_t n, room;
    struct served_by *served;
    size_t n_served, served_room;
    bool json;
};

/* ---- Reading them ---- */

static size_t read_file(pid_t pid, const char *name, char *to, size_t bytes)
{
    char path[PROCESS_PATH_BYTES];
    FILE *file = fopen(process_path(path, pid, name), "re");
    size_t n = file ? fread(to, 1, bytes - 1, file) : 0;
    if (file)
        fclose(file);
    to[n] = '\0';
    return n;
}

/* ---- Sidecars ----
 *
 * A sidecar has a pidfd of each process that it serves, and the system tells of which process a pidfd is: proc(5). */

static bool is_sidecar(pid_t pid)
{
    char text[256];
    size_t n = read_file(pid, "cmdline", text, sizeof text), word = strlen(text) + 1;
    const char *slash = strrchr(text, '/');
    return word < n && !strcmp(slash ? slash + 1 : text, "jespan") && !strcmp(text + word, "serve");
}

/* 0: the descriptor is no pidfd of a living process. */
static pid_t process_of(pid_t sidecar, const char *descriptor)
{
    char name[64], text[512];
    snprintf(name, sizeof name, "fdinfo/%.20s", descriptor);
    read_file(sidecar, name, text, sizeof text);
    const char *line = strstr(text, "\nPid:");
    long pid = line ? strtol(line + 5, NULL, 10) : 0;
    return pid > 0 ? (pid_t)pid : 0;
}

/* Returns false without memory. */
static bool read_sidecar(struct processes *all, pid_t sidecar)
{
    char path[40];
    bool is_whole = true;
    snprintf(path, sizeof path, "/proc/%d/fdinfo", (int)sidecar);
    DIR *descriptors = opendir(path);
    for (struct dirent *entry; descriptors && is_whole && (entry = readdir(descriptors));) {
        pid_t pid = process_of(sidecar, entry->d_name);
        if (!pid)
            continue;
        is_whole = !array_reserve(&all->served, &all->served_room, all->n_served + 1, sizeof *all->served);
        if (is_whole)
            all->served[all->n_served++] = (struct served_by){pid, sidecar};
    }
    if (descriptors)
        closedir(descriptors);
    return is_whole;
}

static pid_t sidecar_of(const struct processes *all, pid_t pid)
{
    for (size_t i = 0; i < all->n_served; i++)
        if (all->served[i].pid == pid)
            return all->served[i].sidecar;
    return 0;
}

/* ---- Processes ---- */

static void read_books(struct process *p, struct view *view)
{
    struct snapshot *s = view_snapshot(view, NULL);
    p->reason = s ? NULL : view_error_text(errno);
    if (s)
        line_find_holder(&p->holder, s, false);
    snapshot_free(s);
}

/* Returns whether the process belongs in the table. A process that may not be read does not, since it may have no
 * jespan. */
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
    p->resident_bytes = process_resident_bytes(pid);
    size_t n = read_file(pid, "comm", p->name, sizeof p->name);
    if (n && p->name[n - 1] == '\n')
        p->name[n - 1] = '\0';
    return true;
}

static bool add_process(struct processes *all, pid_t pid)
{
    if (array_reserve(&all->rows, &all->room, all->n + 1, sizeof *all->rows))
        return false;
    all->n += read_process(&all->rows[all->n], pid);
    return !is_sidecar(pid) || read_sidecar(all, pid);
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
    char figure[FIGURE_BYTES], columns[2 * FIGURE_BYTES + 64], in_use[FIGURE_BYTES] = "-", resident[FIGURE_BYTES] = "-",
        sidecar[16] = "-";
    if (!p->reason)
        figure_bytes(in_use, (int64_t)p->holder.all_bytes, false);
    if (p->resident_bytes)
        figure_bytes(resident, (int64_t)p->resident_bytes, false);
    if (p->sidecar)
        snprintf(sidecar, sizeof sidecar, "%d", (int)p->sidecar);
    snprintf(columns, sizeof columns, "%7d  %9s  %9s  %7s  ", (int)p->pid, in_use, resident, sidecar);
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

static void print_json_process(const struct process *p)
{
    printf("{\"pid\":%d,\"program\":", (int)p->pid);
    text_print_json(p->name);
    printf(",\"resident_bytes\":%" PRIu64 ",\"sidecar\":", p->resident_bytes);
    printf(p->sidecar ? "%d" : "null", (int)p->sidecar);
    if (p->reason) {
        fputs(",\"error\":", stdout);
        text_print_json(p->reason);
    } else {
        printf(",\"inuse_bytes\":%" PRIu64 ",\"most\":{\"inuse_bytes\":%" PRIu64 ",\"context\":", p->holder.all_bytes,
               p->holder.bytes);
        text_print_json(p->holder.path);
        putchar('}');
    }
    putchar('}');
}

static void print_json(const struct processes *all)
{
    putchar('[');
    for (size_t i = 0; i < all->n; i++) {
        fputs(i ? ",\n" : "", stdout);
        print_json_process(&all->rows[i]);
    }
    puts("]");
}

static void print_table(const struct processes *all)
{
    printf("%7s  %9s  %9s  %7s  %-*s %s\n", "PID", "IN USE", "RESIDENT", "SIDECAR", NAME_BYTES, "PROGRAM", "MOST BY");
    for (size_t i = 0; i < all->n; i++)
        print_process(&all->rows[i]);
}

static void print_all(struct processes *all)
{
    for (size_t i = 0; i < all->n; i++)
        all->rows[i].sidecar = sidecar_of(all, all->rows[i].pid);
    if (all->n)
        qsort(all->rows, all->n, sizeof *all->rows, compare);
    if (all->json)
        print_json(all);
    else
        print_table(all);
}

static int run(int argc, char **argv)
{
    struct processes all = {0};
    const struct cmd_option rows[] = {{"json", .on = &all.json}, {0}};
    int status = cmd_options(argc, argv, rows, OPTIONS_ANYWHERE);
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
    free(all.served);
    return reason ? STATUS_USAGE : cmd_finish_output();
}

const struct command command_ps = {
    .name = "ps",
    .summary = "list processes with jespan in them, and who holds their memory",
    .usage =
        "usage: jespan ps [--json]\n"
        "\n"
        "Lists the processes that have jespan in them, the one with most bytes in use\n"
        "first: bytes in use, resident memory, the sidecar that serves it, the program,\n"
        "and the context that has most bytes in use. Nothing in the processes is asked,\n"
        "stopped or signalled.\n"
        "\n"
        "  --json  for other programs; all figures are in bytes\n"
        "\n"
        "Processes that the user may not read are left out; root sees all.\n"
        "\n"
        "Exit status: 0; 1 the output could not be written; 2 wrong command line, or\n"
        "/proc could not be read.\n",
    .run = run,
};
