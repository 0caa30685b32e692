/* SPDX-License-Identifier: BSD-2-Clause */
/* The callback of alerts and the names spans.alerts.*, while threads allocate, ask, and change the callback. alerts.sh has
 * the same with a sidecar. */
#include <jespan/alert.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "../support/alert_thread.h"
#include "../support/check.h"
#include "../support/ctl.h"
#include "../support/family.h"

extern const char *jespan_conf; /* weak in the library */
const char *jespan_conf = "alert:inuse(work)>=1M|outlived(none)>1,reading_interval_ms:1";

enum { OWN_MIB = 1 << 20 };

static atomic_uint n_began[2], n_ended[2];
static atomic_int answer_in_callback = -1;
static atomic_bool is_over;
static void *_Atomic taken;

/* `user` is the number of the callback. */
static void count(const struct jespan_alert_event *event, void *user)
{
    void *own = F(malloc)(5000); /* a callback may allocate */
    int i = user == &n_began[1];
    CHECK(own != NULL && !strcmp(event->rule, "inuse(work)>=1M") && event->bound_bytes == OWN_MIB);
    CHECK_EQ(event->kind == JESPAN_ALERT_BEGAN, event->bytes >= OWN_MIB);
    CHECK(event->kind == JESPAN_ALERT_ENDED || !strcmp(event->path, "work"));
    atomic_store(&answer_in_callback, jespan_set_alert_callback(NULL, NULL));
    atomic_fetch_add(event->kind == JESPAN_ALERT_BEGAN ? &n_began[i] : &n_ended[i], 1);
    F(free)(own);
}

static void take(void)
{
    JESPAN("work");
    atomic_store(&taken, F(malloc)(2 * OWN_MIB));
}

static void drop(void)
{
    F(free)(atomic_exchange(&taken, NULL));
}

static void await(atomic_uint *n, unsigned value)
{
    for (int ms = 0; atomic_load(n) < value && ms < 600000; ms++)
        usleep(1000);
}

static void it_is_called(void)
{
    CHECK_EQ(ctl_u64("spans.alerts.count"), 2);
    CHECK_EQ(jespan_set_alert_callback(count, &n_began[0]), 0);
    take();
    await(&n_began[0], 1);
    CHECK_EQ(atomic_load(&answer_in_callback), EDEADLK);
    CHECK_EQ(ctl_u64("spans.alerts.1.holding"), 1);
    CHECK_EQ(ctl_u64("spans.alerts.1.fired"), 1);
    CHECK(ctl_u64("spans.alerts.1.bytes") >= 2 * OWN_MIB);
    CHECK_EQ(jespan_set_alert_callback(count, &n_began[1]), 0); /* another one is told what holds */
    await(&n_began[1], 1);
    drop();
    await(&n_ended[1], 1);
    CHECK_EQ(atomic_load(&n_began[0]), 1);
    CHECK_EQ(atomic_load(&n_ended[0]), 0);
    CHECK_EQ(ctl_u64("spans.alerts.2.fired"), 0);
}

static void names(void)
{
    uint64_t value = 1;
    size_t bytes = sizeof value;
    CHECK(!strcmp(ctl_text("spans.alerts.2.rule"), "outlived(none)>1"));
    CHECK_EQ(F(mallctl)("spans.alerts.3.rule", NULL, NULL, NULL, 0), ENOENT);
    CHECK_EQ(F(mallctl)("spans.alerts.0.fired", &value, &bytes, NULL, 0), ENOENT);
    CHECK_EQ(F(mallctl)("spans.alerts.1.fired", NULL, NULL, &value, bytes), EPERM);
    CHECK_EQ(F(mallctl)("spans.alerts.1.none", &value, &bytes, NULL, 0), ENOENT);
}

static void nobody_is_told_any_more(void)
{
    CHECK_EQ(jespan_set_alert_callback(NULL, NULL), 0);
    unsigned before = atomic_load(&n_began[0]) + atomic_load(&n_began[1]);
    uint64_t fired = ctl_u64("spans.alerts.1.fired");
    take();
    for (int ms = 0; ctl_u64("spans.alerts.1.fired") == fired && ms < 600000; ms++)
        usleep(1000);
    CHECK_EQ(atomic_load(&n_began[0]) + atomic_load(&n_began[1]), before);
    drop();
}

static void *ask_always(void *unused)
{
    (void)unused;
    while (!atomic_load(&is_over)) {
        CHECK(ctl_u64("spans.alerts.1.holding") <= 1);
        CHECK(ctl_text("spans.alerts.1.rule") != NULL);
        (void)ctl_u64("spans.alerts.1.bytes");
    }
    return NULL;
}

static void *change_always(void *unused)
{
    (void)unused;
    for (unsigned i = 0; !atomic_load(&is_over); i++)
        CHECK_EQ(jespan_set_alert_callback(i % 3 ? count : NULL, &n_began[i % 2]), 0);
    return NULL;
}

static void all_at_once(void)
{
    pthread_t threads[3];
    unsigned before = atomic_load(&n_began[0]) + atomic_load(&n_began[1]);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, i ? ask_always : change_always, NULL), 0);
    for (int round = 0; round < 20 || atomic_load(&n_began[0]) + atomic_load(&n_began[1]) == before; round++) {
        take();
        usleep(2000);
        drop();
        usleep(2000);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(jespan_set_alert_callback(NULL, NULL), 0);
}

/* Without follow_fork, nobody evaluates the rules in a child. */
static void a_child_is_not_told(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        uint64_t value;
        size_t bytes = sizeof value;
        int failed = F(mallctl)("spans.alerts.1.fired", &value, &bytes, NULL, 0) != ENOENT || jespan_set_alert_callback(count, NULL) != 0 ||
                     ctl_u64("spans.alerts.count") != 2;
        _exit(failed);
    }
    CHECK_CHILD(pid);
}

int main(void)
{
    start_alert_thread();
    it_is_called();
    names();
    nobody_is_told_any_more();
    all_at_once();
    if (FAMILY_INTERPOSED)
        a_child_is_not_told();
    return check_result();
}
