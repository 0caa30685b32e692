/* SPDX-License-Identifier: BSD-2-Clause */
/* For services.sh: waits until the service runs, and does what its argument says.
 *
 *   run     checks what the service found and made, and returns from main
 *   fork    has a child in which no service runs: all its figures are 0
 *   follow  has a child with a service of its own, which ends with it alone
 *   none    waits for nothing
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#include <jespan/jespan.h>

#include "../support/ctl.h"

enum { PATIENCE_MS = 20000 };

static uint64_t figure(const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "spans.stats.pyroscope.%s", name);
    return ctl_u64(full);
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* As its owner has made its figures. */
static void wait_for_service(void)
{
    for (int ms = 0; figure("pushes") == 0 && ms < PATIENCE_MS; ms++)
        sleep_ms(1);
    CHECK_EQ(figure("pushes"), 1);
    CHECK_EQ(figure("queue_length"), 1);
    CHECK_EQ(figure("pushed_bytes"), (uint64_t)getpid());
    CHECK_EQ(figure("rejected"), 0);
}

/* Memory held by contexts of jespan's own, and by all others. */
static void held(uint64_t *own, uint64_t *others)
{
    uint32_t ids[64];
    size_t bytes = sizeof ids;
    *own = *others = 0;
    ctl_refresh();
    CHECK_EQ(mallctl("spans.ids", ids, &bytes, NULL, 0), 0);
    for (size_t i = 0; i < bytes / sizeof *ids; i++)
        *(strcmp(ctl_span_text(ids[i], "kind"), "jespan") == 0 ? own : others) += ctl_span(ids[i], "inuse_bytes");
}

/* Of both its threads. */
static void check_credit(void)
{
    uint64_t own, others;
    held(&own, &others);
    CHECK(own >= 10000000);
    CHECK(others < 5000000);
}

static void in_child(int follow)
{
    if (follow) {
        wait_for_service();
        exit(check_result());
    }
    sleep_ms(20);
    CHECK_EQ(figure("pushes"), 0);
    CHECK_EQ(figure("queue_length"), 0);
    CHECK_EQ(figure("pushed_bytes"), 0);
    exit(check_result());
}

static void fork_and_wait(int follow)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0)
        in_child(follow);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    sleep_ms(50);
    CHECK_EQ(figure("queue_length"), 1); /* it was not this one's that ended */
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "none") != 0)
        wait_for_service();
    if (strcmp(what, "run") == 0)
        check_credit();
    if (strcmp(what, "fork") == 0 || strcmp(what, "follow") == 0)
        fork_and_wait(what[2] == 'l');
    if (strcmp(what, "none") == 0)
        sleep_ms(50);
    return check_result();
}
