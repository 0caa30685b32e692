/* SPDX-License-Identifier: BSD-2-Clause */
/* For alerts.sh: does what its arguments say, one after the other.
 *
 *   work N     allocates N bytes in the spans work > part {tenant=blue}
 *   drop       frees the last of them
 *   keep N     the same in the span "session", and keeps them when it is closed
 *   many N     allocates an object in each of N spans with a label of its own, and keeps them
 *   plain N    allocates N bytes outside spans and keeps them
 *   await F    waits until a file that fits F exists (glob(7)), 600 s at most
 *   callback   has the callback print what it is told
 *   told N     waits until it was called N times
 *   fired I N  waits until mallctl says that rule I has fired N times
 *   grow I     allocates 100 kB every 10 ms, and keeps it, until rule I has fired
 *   ended I    waits until mallctl says that rule I does not hold
 *   mode M     allocates outside spans until spans.stacks is M
 *   stacks M   sets spans.stacks
 *   rules      prints all rules by mallctl
 *   stall      has a thread dump into a FIFO, "stalled", that nobody reads: another dump waits for it
 *   flow       ends that
 *   fork       goes on in a child; the parent waits for it and ends as it does
 *   pid        prints the number of this process
 *   exit N     _exit(N)
 *   kill       ends by SIGKILL
 */
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jespan/alert.h>
#include <jespan/jespan.h>
#include <jespan/mallctl.h>

static char *volatile last;

static void take(size_t n)
{
    last = malloc(n);
    if (!last)
        exit(9);
    memset(last, 1, n);
}

static void work(size_t n)
{
    JESPAN("work");
    JESPAN("part", "tenant", "blue");
    take(n);
}

static void keep(size_t n)
{
    JESPAN("session");
    take(n);
}

static void many(size_t n)
{
    char label[24];
    for (size_t i = 0; i < n; i++) {
        snprintf(label, sizeof label, "%zu", i);
        JESPAN("one", "of", label);
        take(1);
    }
}

static int await(const char *pattern)
{
    glob_t found;
    for (int i = 0; i < 60000; i++, usleep(10000)) {
        int missing = glob(pattern, 0, NULL, &found);
        globfree(&found);
        if (!missing)
            return 0;
    }
    return 8;
}

/* ---- What the rules do ---- */

static atomic_ulong n_told;

static void note(const struct jespan_alert_event *event, void *user)
{
    dprintf(1, "%s %s: %" PRIu64 " of %" PRIu64 " bytes, %" PRIu64 " in '%s'%s%s\n", event->kind == JESPAN_ALERT_BEGAN ? "began" : "ended",
            event->rule, event->bytes, event->bound_bytes, event->context_bytes, event->path,
            event->context == JESPAN_INVALID ? ", none" : "", user == &n_told ? "" : ", wrong user");
    atomic_fetch_add(&n_told, 1);
}

static uint64_t ask(unsigned long rule, const char *leaf)
{
    char name[64];
    uint64_t value;
    size_t bytes = sizeof value;
    snprintf(name, sizeof name, "spans.alerts.%lu.%s", rule, leaf);
    return mallctl(name, &value, &bytes, NULL, 0) == 0 ? value : UINT64_MAX;
}

static void print_rules(void)
{
    uint64_t n = 0;
    const char *rule = "";
    size_t bytes = sizeof n;
    mallctl("spans.alerts.count", &n, &bytes, NULL, 0);
    for (unsigned long i = 1; i <= n; i++) {
        char name[64];
        bytes = sizeof rule;
        snprintf(name, sizeof name, "spans.alerts.%lu.rule", i);
        mallctl(name, &rule, &bytes, NULL, 0);
        dprintf(1, "%lu %s: holding %" PRIu64 ", fired %" PRIu64 ", bytes %" PRIu64 "\n", i, rule, ask(i, "holding"), ask(i, "fired"),
                ask(i, "bytes"));
    }
}

static int until(int is_so)
{
    static int rounds;
    return is_so || (rounds++ < 60000 ? usleep(10000), 0 : (_exit(8), 0));
}

static const char *mode(void)
{
    const char *text = "";
    size_t bytes = sizeof text;
    mallctl("spans.stacks", &text, &bytes, NULL, 0);
    return text;
}

static void allocate(void)
{
    char *volatile p = malloc(100000);
    free(p);
}

static void set_mode(const char *text)
{
    if (mallctl("spans.stacks", NULL, NULL, &text, sizeof text))
        _exit(6);
}

/* ---- A dump that takes as long as the program wants ---- */

static const char stalled_path[] = "stalled";
static int stalled;
static pthread_t dumping;

static void *dump_into_fifo(void *unused)
{
    const char *path = stalled_path;
    mallctl("spans.dump", NULL, NULL, &path, sizeof path);
    return unused;
}

static int is_open_twice(void)
{
    struct stat fifo, other;
    int n = 0;
    fstat(stalled, &fifo);
    for (int fd = 0; fd < 64; fd++)
        n += fstat(fd, &other) == 0 && other.st_dev == fifo.st_dev && other.st_ino == fifo.st_ino;
    return n == 2;
}

static void stall(void)
{
    if (mkfifo(stalled_path, 0600) || (stalled = open(stalled_path, O_RDWR | O_NONBLOCK)) < 0)
        _exit(4);
    while (write(stalled, stalled_path, 1) == 1)
        ;
    pthread_create(&dumping, NULL, dump_into_fifo, NULL);
    while (!until(is_open_twice()))
        ;
}

static void flow(void)
{
    close(stalled);
    pthread_join(dumping, NULL);
}

static void go_on_in_child(void)
{
    int status;
    pid_t child = fork();
    if (child && (waitpid(child, &status, 0) != child || !WIFEXITED(status)))
        _exit(5);
    if (child)
        exit(WEXITSTATUS(status));
}

static void await_mode(const char *text)
{
    do
        allocate();
    while (!until(!strcmp(mode(), text)));
    allocate(); /* a thread may allocate once more in the former mode */
}

/* Words about rules. Returns how many arguments follow, or -1: it is none of them. */
static int do_rules(char **argv)
{
    const char *word = argv[0];
    if (!strcmp(word, "callback"))
        return jespan_set_alert_callback(note, &n_told) ? (_exit(7), 0) : 0;
    if (!strcmp(word, "rules"))
        return print_rules(), 0;
    if (!strcmp(word, "pid"))
        return dprintf(1, "%d\n", (int)getpid()), 0;
    if (!strcmp(word, "told"))
        while (!until(atomic_load(&n_told) >= strtoul(argv[1], NULL, 10)))
            ;
    else if (!strcmp(word, "mode"))
        await_mode(argv[1]);
    else if (!strcmp(word, "stacks"))
        set_mode(argv[1]);
    else if (!strcmp(word, "ended"))
        while (!until(ask(strtoul(argv[1], NULL, 10), "holding") == 0))
            ;
    else if (!strcmp(word, "grow"))
        while (!until(ask(strtoul(argv[1], NULL, 10), "fired") == 1))
            take(100000);
    else if (!strcmp(word, "fired"))
        while (!until(ask(strtoul(argv[1], NULL, 10), "fired") == strtoul(argv[2], NULL, 10)))
            ;
    else
        return -1;
    return strcmp(word, "fired") ? 1 : 2;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : "0";
        size_t n = strtoul(next, NULL, 10);
        int more = do_rules(argv + i);
        if (more >= 0)
            i += more;
        else if (!strcmp(word, "work"))
            work(n), i++;
        else if (!strcmp(word, "keep"))
            keep(n), i++;
        else if (!strcmp(word, "many"))
            many(n), i++;
        else if (!strcmp(word, "plain"))
            take(n), i++;
        else if (!strcmp(word, "stall"))
            stall();
        else if (!strcmp(word, "flow"))
            flow();
        else if (!strcmp(word, "fork"))
            go_on_in_child();
        else if (!strcmp(word, "drop"))
            free(last);
        else if (!strcmp(word, "kill"))
            raise(SIGKILL);
        else if (!strcmp(word, "exit"))
            _exit((int)n);
        else if (strcmp(word, "await") || await(argv[++i]))
            return 8;
    }
    return 0;
}
