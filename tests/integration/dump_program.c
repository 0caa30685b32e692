/* SPDX-License-Identifier: BSD-2-Clause */
/* For scripts that look at dumps: holds memory in spans, then does what its arguments say, one after another.
 *
 *   dump PATH        asks for a dump            fork        forks a child that allocates, and waits for it
 *   dump_time PATH   asks for one of times      exec PROG   runs a program in a child
 *   sleep MS         lets time pass             figures     prints what a dump should show, see pprof.sh
 *   dumps N          waits until N are written  times       the same of a dump of times
 *   losses N         waits until N are lost     stats       prints dumps and losses
 *   churn            allocates until killed     _exit       leaves without exit handlers
 *   passing N        N spans with labels of their own, the last 5 leave memory behind
 *   crash            is killed by SIGSEGV       check       the heap still works, and the books are right
 *   file PATH        waits until it is there
 *   become PROG ARG… becomes another program, with the same process id
 */
#define _GNU_SOURCE
#include <signal.h>
#include <time.h>

#include <jespan/jespan.h>

#include "../support/ctl.h"

static void *held[100];

static void parse(int from)
{
    JESPAN("parse", "tenant", "ümläut \"quoted\"", "route", "/a/b?c=d");
    for (int i = from; i < from + 25; i++)
        held[i] = malloc((size_t)i * 100 + 1);
    free(malloc(123));
}

static void handle(int from)
{
    JESPAN_WITH("handle", JESPAN_LABEL_INT("request", 4096), JESPAN_LABEL_INT("retries", 0));
    parse(from);
    held[from + 25] = malloc(1 << 20);
    held[from + 26] = aligned_alloc(4096, 10000);
    held[from + 26] = realloc(held[from + 26], 20000);
}

/* A gauge of everything, one line: what of `leaf` all contexts but jespan's own have. */
static uint64_t all_but_own(const char *leaf)
{
    uint32_t ids[256];
    size_t bytes = sizeof ids;
    char name[64];
    snprintf(name, sizeof name, "spans.all.%s", leaf);
    uint64_t sum = ctl_u64(name);
    CHECK_EQ(mallctl("spans.ids", ids, &bytes, NULL, 0), 0);
    for (size_t i = 0; i < bytes / sizeof *ids; i++)
        if (strcmp(ctl_span_text(ids[i], "kind"), "jespan") == 0)
            sum -= ctl_span(ids[i], leaf);
    return sum;
}

static void print_figures(const char *const leaves[4])
{
    static uint64_t total[4], rows[256][4];
    static uint32_t ids[256];
    size_t bytes = sizeof ids;
    ctl_refresh();
    CHECK_EQ(mallctl("spans.ids", ids, &bytes, NULL, 0), 0);
    size_t n = bytes / sizeof *ids;
    for (int l = 0; l < 4; l++) { /* all read before the first is printed: printing allocates */
        total[l] = all_but_own(leaves[l]);
        for (size_t i = 0; i < n; i++)
            rows[i][l] = ctl_span(ids[i], leaves[l]);
    }
    char line[256];
    for (size_t i = 0; i <= n; i++) {
        const uint64_t *v = i < n ? rows[i] : total;
        int length = snprintf(line, sizeof line, "%llu %llu %llu %llu %s\n", (unsigned long long)v[0],
                              (unsigned long long)v[1], (unsigned long long)v[2], (unsigned long long)v[3],
                              i < n ? ctl_span_text(ids[i], "name") : "total");
        if (write(STDOUT_FILENO, line, (size_t)length) != length)
            _exit(2);
    }
}

static const char *const heap_leaves[] = {"alloc_objects", "alloc_bytes", "inuse_objects", "inuse_bytes"};
static const char *const time_leaves[] = {"opens", "wall_ns", "busy_ns", "cpu_ns"};

static void print_stats(void)
{
    char line[80];
    int n = snprintf(line, sizeof line, "pid %d dumps %llu lost %llu\n", (int)getpid(),
                     (unsigned long long)ctl_u64("spans.stats.dumps"), (unsigned long long)ctl_u64("spans.stats.lost_dumps"));
    if (write(STDOUT_FILENO, line, (size_t)n) != n)
        _exit(2);
}

static void sleep_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* However long the disk and others on the processors make it. */
static void await(const char *name, uint64_t count)
{
    for (int ms = 0; ctl_u64(name) < count && ms < 60000; ms++)
        sleep_ms(1);
}

static void await_file(const char *path)
{
    for (int ms = 0; access(path, F_OK) && ms < 600000; ms++)
        sleep_ms(1);
}

static void run_in_child(const char *program)
{
    pid_t pid = fork();
    if (pid == 0) {
        JESPAN("in the child");
        held[99] = malloc(5000);
        if (program)
            execl(program, program, NULL);
        print_stats();
        exit(0);
    }
    CHECK_CHILD(pid);
}

static void churn(void)
{
    for (unsigned n = 0;; n++) {
        char text[16];
        snprintf(text, sizeof text, "%u", n % 5000);
        JESPAN("churn", "number", text);
        free(held[98]);
        held[98] = malloc(n % 100000);
    }
}

static void passing(unsigned count)
{
    for (unsigned n = 0; n < count; n++) {
        char text[16];
        snprintf(text, sizeof text, "%u", n);
        JESPAN("passing", "number", text);
        void *p = malloc(1000 + n);
        if (n + 5 < count)
            free(p);
    }
}

static void check_heap(void)
{
    for (int i = 0; i < 10000; i++)
        free(opaque_pointer(malloc((size_t)i)));
    ctl_await_identity("after dumps");
}

static void dump(const char *name, const char *path)
{
    int error = mallctl(name, NULL, NULL, &path, sizeof path);
    if (error)
        check_note("dump: %s", strerrorname_np(error));
}

static char **act(char **argument)
{
    if (!strcmp(*argument, "dump"))
        dump("spans.dump", *++argument);
    else if (!strcmp(*argument, "dump_time"))
        dump("spans.dump_time", *++argument);
    else if (!strcmp(*argument, "sleep"))
        sleep_ms(atol(*++argument));
    else if (!strcmp(*argument, "dumps"))
        await("spans.stats.dumps", strtoull(*++argument, NULL, 10));
    else if (!strcmp(*argument, "losses"))
        await("spans.stats.lost_dumps", strtoull(*++argument, NULL, 10));
    else if (!strcmp(*argument, "file"))
        await_file(*++argument);
    else if (!strcmp(*argument, "stats"))
        print_stats();
    else if (!strcmp(*argument, "figures"))
        print_figures(heap_leaves);
    else if (!strcmp(*argument, "times"))
        print_figures(time_leaves);
    else if (!strcmp(*argument, "fork"))
        run_in_child(NULL);
    else if (!strcmp(*argument, "exec"))
        run_in_child(*++argument);
    else if (!strcmp(*argument, "passing"))
        passing((unsigned)atol(*++argument));
    else if (!strcmp(*argument, "churn"))
        churn();
    else if (!strcmp(*argument, "check"))
        check_heap();
    else if (!strcmp(*argument, "_exit"))
        _exit(0);
    else if (!strcmp(*argument, "become"))
        execv(argument[1], argument + 1);
    else if (!strcmp(*argument, "crash"))
        kill(getpid(), SIGSEGV);
    else
        check_fail("unknown action %s", *argument);
    return argument + 1;
}

int main(int argc, char **argv)
{
    (void)argc;
    handle(0);
    handle(40);
    for (char **argument = argv + 1; *argument;)
        argument = act(argument);
    return check_result();
}
