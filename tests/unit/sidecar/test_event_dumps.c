/* SPDX-License-Identifier: BSD-2-Clause */
/* Dumps that the sidecar writes for events of a process: which, how often, and what the process is told by the page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "sidecar/event_dumps.c"
#include "sidecar/page.c"

#define PID 2147483645 /* no process has it */
#define OOM DUMP_BIT(DUMP_OOM)
#define LIMIT DUMP_BIT(DUMP_LIMIT)

static struct sidecar_slot *slot;
static struct served process;
static char log_of_dumps[64];      /* the first letter of each dump's reason */
static uint32_t happens_meanwhile; /* during the next dump */
static uint32_t during_dump;       /* the slot's events then */

/* ---- In place of the rest of the sidecar ---- */

void holders_describe(char text[HOLDERS_TEXT_BYTES], const struct snapshot *s)
{
    (void)s;
    strcpy(text, "nobody");
}

struct snapshot *readings_next(struct readings *r)
{
    static struct snapshot snapshot;
    (void)r;
    return &snapshot;
}

void readings_give_back(struct snapshot *s)
{
    (void)s;
}

int readings_get(struct readings *r, const char *name, struct mailbox_answer *answer)
{
    (void)r;
    (void)name;
    (void)answer;
    return -ENOENT;
}

bool served_write_dump(struct served *p, const struct snapshot *s, enum dump_reason reason, const char *note)
{
    (void)s;
    assert_ptr_equal(p, &process);
    assert_non_null(note);
    strncat(log_of_dumps, dump_reason_names[reason], 1);
    during_dump = load_relaxed(&slot->events);
    atomic_fetch_or(&slot->events, happens_meanwhile);
    happens_meanwhile = 0;
    return true;
}

void served_note_figures(struct served *p, struct snapshot *s)
{
    (void)p;
    (void)s;
}

/* ---- A process ---- */

static int begin_process(void **state)
{
    (void)state;
    slot = &page->slots[3];
    memset(slot, 0, sizeof *slot);
    memset((void *)page->dumps[3], 0, sizeof page->dumps[3]);
    store_relaxed(&slot->pid, PID);
    store_relaxed(&slot->events, DUMP_ON_ACCEPTS);
    process = (struct served){.pid = PID, .slot = slot, .readings = (struct readings *)&process};
    log_of_dumps[0] = '\0';
    strcpy(conf.dump_dir, "/");
    strcpy(conf.dump_on, "oom|limit|signal");
    conf.dump_oom_percent = 100; /* only what the process reports */
    conf.dump_pressure_percent = 0;
    conf.dump_on_interval_s = 600;
    assert_int_equal(event_dumps_boot(), OOM | LIMIT | DUMP_BIT(DUMP_SIGNAL));
    event_dumps_tend(&process);
    return 0;
}

static int end_process(void **state)
{
    (void)state;
    event_dumps_end(&process);
    assert_null(process.event_dumps);
    assert_true(event_dumps_next_ns(&process) == UINT64_MAX);
    return 0;
}

static void happen(uint32_t events)
{
    atomic_fetch_or(&slot->events, events);
    event_dumps_tend(&process);
}

/* ---- Tests ---- */

static void test_quiet(void **state)
{
    (void)state;
    assert_string_equal(log_of_dumps, "");
    assert_int_equal(slot->events, DUMP_ON_ACCEPTS);
    assert_true(event_dumps_next_ns(&process) < UINT64_MAX); /* it looks how much memory is left */
}

/* The bit is taken away before the dump, so that a later event asks for another one, after the pause. */
static void test_refusals(void **state)
{
    (void)state;
    happens_meanwhile = LIMIT;
    happen(LIMIT);
    assert_string_equal(log_of_dumps, "l");
    assert_int_equal(during_dump, DUMP_ON_ACCEPTS | DUMP_ON_BUSY);
    assert_int_equal(slot->events, DUMP_ON_ACCEPTS | LIMIT);
    event_dumps_tend(&process);
    assert_string_equal(log_of_dumps, "l");
    conf.dump_on_interval_s = 0;
    process.event_dumps->watch.free_again_ns[DUMP_LIMIT] = 0; /* the pause is over */
    process.event_dumps->next_ns = 0;
    event_dumps_tend(&process);
    assert_string_equal(log_of_dumps, "ll");
    assert_int_equal(page->dumps[3][DUMP_LIMIT], 2);
    assert_int_equal(page->dumps[3][DUMP_OOM], 0);
    assert_int_equal(slot->events, DUMP_ON_ACCEPTS);
    happen(DUMP_BIT(DUMP_SIGNAL) | LIMIT);
    assert_string_equal(log_of_dumps, "llls");
}

/* The bit stays until the dump is written: threads wait for it. Then they report nothing while nothing is written. */
static void test_failures(void **state)
{
    (void)state;
    happen(OOM);
    assert_string_equal(log_of_dumps, "o");
    assert_int_equal(during_dump, DUMP_ON_ACCEPTS | DUMP_ON_BUSY | OOM);
    assert_int_equal(slot->events, DUMP_ON_ACCEPTS | DUMP_ON_QUIET);
    happen(OOM); /* by a thread that saw the word before */
    assert_string_equal(log_of_dumps, "o");
    assert_int_equal(slot->events, DUMP_ON_ACCEPTS | DUMP_ON_QUIET);
    assert_true(process.event_dumps->quiet_until_ns > clock_ns(CLOCK_MONOTONIC));
    assert_true(event_dumps_next_ns(&process) <= process.event_dumps->quiet_until_ns);
    process.event_dumps->quiet_until_ns = 1; /* the pause is over */
    process.event_dumps->watch.free_again_ns[DUMP_OOM] = 0;
    event_dumps_tend(&process);
    assert_int_equal(slot->events, DUMP_ON_ACCEPTS);
    happen(OOM);
    assert_string_equal(log_of_dumps, "oo");
}

/* A process that executes another program, or writes what it likes: it is not looked after, again and again, for nothing. */
static void test_no_events_left(void **state)
{
    (void)state;
    store_relaxed(&slot->events, OOM | LIMIT);
    event_dumps_tend(&process);
    assert_string_equal(log_of_dumps, "");
    assert_true(event_dumps_next_ns(&process) == UINT64_MAX);
    store_relaxed(&slot->events, DUMP_ON_ACCEPTS);
    assert_true(event_dumps_next_ns(&process) < UINT64_MAX);
}

static void test_slot_of_another(void **state)
{
    (void)state;
    store_relaxed(&slot->pid, PID + 1);
    happen(OOM | LIMIT);
    assert_string_equal(log_of_dumps, "");
    assert_true(event_dumps_next_ns(&process) == UINT64_MAX);
    page_begin_dump(slot, PID, DUMP_LIMIT);
    page_end_dump(slot, PID);
    page_done(slot, PID);
    page_be_open(slot, PID);
    page_empty(slot, PID);
    assert_int_equal(slot->events, DUMP_ON_ACCEPTS | OOM | LIMIT);
    page_empty(slot, PID + 1);
    assert_int_equal(slot->events, 0);
    assert_int_equal(slot->pid, 0);
}

static void test_nothing_wanted(void **state)
{
    (void)state;
    conf.dump_dir[0] = '\0';
    assert_int_equal(event_dumps_boot(), 0);
    happen(LIMIT);
    assert_string_equal(log_of_dumps, "");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin_process, end_process)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_quiet),           TEST(test_refusals),        TEST(test_failures),
        TEST(test_no_events_left),  TEST(test_slot_of_another), TEST(test_nothing_wanted),
    };
    page = mmap(NULL, SIDECAR_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
