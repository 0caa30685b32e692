/* SPDX-License-Identifier: BSD-2-Clause */
/* The mailbox. A request is answered, withdrawn, or damaged; two processes ask at once while threads allocate; a forked
 * child leaves its parent's request alone. Requests by chance, and names that would do harm, do nothing. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../support/booted.h"
#include "../../support/family.h"
#include "../../support/many_locks.h"
#include "base/clock.h"
#include "base/mailbox.h"
#include "jespan/jespan.h"
#include "heap/classes.h"
#include "jemalloc/binding.h"
#include "malloc/boot.h"
#include "malloc/track.h"
#include "snapshot/mailbox_outside.h"
#include "stacks/stacks.h"

extern const char *jespan_conf; /* weak in conf.c */
const char *jespan_conf = "thread_contexts:false";

enum { RANDOM_REQUESTS = 20000, ASKERS = 2, ASKED_EACH = 300, CHURNERS = 2 };

/* ---- In this process: the other one's stores are plain ones ---- */

static struct mailbox_answer *const answer = &mailbox.answer[0];
static struct mailbox_words *const words_here = &mailbox.words[0];

/* Puts a request where the other process would. `is_whole`: with its check sum. */
static void post_at(unsigned slot, uint32_t number, struct mailbox_request request, bool is_whole)
{
    request.number = number;
    request.check = mailbox_check(&request) + !is_whole;
    mailbox.request[slot] = request;
    store_relaxed(&mailbox.words[slot].asked, request.number);
    atomic_fetch_or(&slow_work, SLOW_MAIL);
}

static void post(struct mailbox_request request, bool is_whole)
{
    post_at(0, load_relaxed(&words_here->taken) + 1, request, is_whole);
}

static bool is_answered(void)
{
    return load_relaxed(&words_here->answered) == load_relaxed(&words_here->asked);
}

static struct mailbox_request request_of(enum mailbox_verb verb, const char *name, const char *words, uint64_t value)
{
    struct mailbox_request request = {.verb = verb, .value = value, .has_value = 1, .token = 77};
    snprintf(request.name, sizeof request.name, "%s", name);
    snprintf(request.words, sizeof request.words, "%s", words);
    return request;
}

/* Returns the answer's error. */
static int ask_here(enum mailbox_verb verb, const char *name, const char *words, uint64_t value)
{
    post(request_of(verb, name, words, value), true);
    mailbox_look();
    assert_true(is_answered());
    assert_int_equal(answer->token, 77);
    return answer->error;
}

/* A thread that frees comes past the mailbox, and so does one that allocates large objects. */
static void test_is_answered_by_free_and_by_malloc(void **state)
{
    void *p[100];
    (void)state;
    post(request_of(MAILBOX_GET, "spans.version", "", 0), true);
    for (int i = 0; i < 100; i++)
        p[i] = F(malloc)(64);
    for (int i = 0; i < 100; i++)
        F(free)(p[i]);
    assert_true(is_answered());
    assert_int_equal(answer->kind, MAILBOX_WORDS);
    assert_true(strchr(answer->words, '.'));
    post(request_of(MAILBOX_GET, "arenas.page", "", 0), true);
    F(free)(opaque_pointer(F(malloc)(100000)));
    assert_true(is_answered());
    assert_int_equal(answer->value, binding_page_bytes());
    assert_int_equal(load_relaxed(&slow_work), 0);
}

/* ---- Hidden classes: what the other process does to threads on the fast path ---- */

static void hide_classes(void)
{
    for (size_t i = 0; i < CLASS_ROWS; i++)
        store_relaxed(&size_to_class[i].class, 0);
}

static bool classes_are_shown(void)
{
    for (size_t i = 0; i < CLASS_ROWS; i++)
        if (size_to_class[i].bytes && class_bytes[load_relaxed(&size_to_class[i].class)] != size_to_class[i].bytes)
            return false;
    return true;
}

static void *by_malloc(void)
{
    return F(malloc)(64);
}
static void *by_calloc(void)
{
    return F(calloc)(4, 16);
}
static void *by_aligned_alloc(void)
{
    return F(aligned_alloc)(64, 64);
}
static void *by_posix_memalign(void)
{
    void *p = NULL;
    return F(posix_memalign)(&p, 64, 64) ? NULL : p;
}
static void *by_realloc(void)
{
    return F(realloc)(F(malloc)(16), 64);
}
static void *by_mallocx(void)
{
    return F(mallocx)(64, 0x40); /* MALLOCX_ZERO */
}

static void *(*const allocations[])(void) = {by_malloc, by_calloc, by_aligned_alloc, by_posix_memalign, by_realloc, by_mallocx};

static void free_one(void *(*allocate)(void))
{
    F(free)(opaque_pointer(allocate()));
}

/* `needed`: allocations until one looks. Returns 0, or the number of the step that failed: cmocka's assertions are for
 * its own thread. */
static int check_hidden(void *(*allocate)(void), int needed)
{
    void *p[8]; /* with stacks, each allocation takes another one, since frees wait in the buffer */
    for (int i = 0; i < 8; i++)
        p[i] = allocate();
    for (int i = 0; i < 8; i++)
        F(free)(p[i]);
    track_flush_any(thread_current); /* now its magazine has the objects, and the free buffer has room */
    post(request_of(MAILBOX_GET, "spans.version", "", 0), true);
    for (int i = 0; i < 3; i++)
        free_one(allocate);
    if (is_answered()) /* the fast path does not look */
        return 1;
    hide_classes();
    for (int i = 0; i < needed; i++)
        free_one(allocate);
    if (!is_answered() || load_relaxed(&slow_work))
        return 2;
    if (!classes_are_shown())
        return 3;
    hide_classes(); /* as another process does that sees the answer too late */
    free_one(allocate);
    return classes_are_shown() ? 0 : 4;
}

struct check {
    int needed, failed; /* kind of allocation * 10 + step */
};

static void *check_all_hidden(void *of)
{
    struct check *check = of;
    for (int i = 0; i < (int)(sizeof allocations / sizeof allocations[0]); i++) {
        int step = check_hidden(allocations[i], check->needed);
        if (step)
            check->failed = 10 * (i + 1) + step;
    }
    return NULL;
}

static void check_on_another_thread(int needed)
{
    struct check check = {needed, 0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, check_all_hidden, &check), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(check.failed, 0);
    check_all_hidden(&check);
    assert_int_equal(check.failed, 0);
}

/* Also with stacks. With a limit, the first allocation holds bytes, and the next one looks. */
static void test_an_allocation_that_finds_its_class_hidden_looks(void **state)
{
    static const char *const modes[] = {"sampled", "all", "off"};
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(ask_here(MAILBOX_SET, "spans.stacks", modes[i], 0), 0);
        check_on_another_thread(1);
    }
    assert_int_equal(ask_here(MAILBOX_SET, "spans.1.limit_hard", "1G", 1 << 30), 0);
    check_on_another_thread(2);
    assert_int_equal(ask_here(MAILBOX_SET, "spans.1.limit_hard", "", 0), 0);
}

enum { OBJECTS_EACH = 100000, HIDDEN_CHURNERS = 3 };

static _Atomic int churners_left;

static void *churn_counted(void *unused)
{
    void *p[4] = {0};
    for (int i = 0; i < OBJECTS_EACH; i++) {
        F(free)(p[i % 4]);
        p[i % 4] = F(malloc)(16 + (size_t)(i % 50) * 64);
        memset(p[i % 4], i, 16);
    }
    for (int i = 0; i < 4; i++)
        F(free)(p[i]);
    atomic_fetch_sub(&churners_left, 1);
    return unused;
}

static uint64_t figure_here(const char *name)
{
    assert_int_equal(ask_here(MAILBOX_GET, name, "", 0), 0);
    return answer->value;
}

/* No object is lost or counted twice while classes are hidden all the time. */
static void test_figures_are_exact_while_classes_are_hidden(void **state)
{
    pthread_t threads[HIDDEN_CHURNERS];
    (void)state;
    uint64_t objects = figure_here("spans.all.alloc_objects"), bytes = figure_here("spans.all.inuse_bytes");
    uint64_t in_use = figure_here("spans.all.inuse_objects");
    store_relaxed(&churners_left, HIDDEN_CHURNERS);
    for (int i = 0; i < HIDDEN_CHURNERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn_counted, NULL), 0);
    while (load_relaxed(&churners_left)) {
        hide_classes();
        sched_yield();
    }
    for (int i = 0; i < HIDDEN_CHURNERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    classes_show();
    assert_in_range(figure_here("spans.all.alloc_objects") - objects, HIDDEN_CHURNERS * OBJECTS_EACH,
                    HIDDEN_CHURNERS * OBJECTS_EACH + 8 * HIDDEN_CHURNERS); /* libc makes some for a thread */
    assert_int_equal(figure_here("spans.all.inuse_objects"), in_use);
    assert_int_equal(figure_here("spans.all.inuse_bytes"), bytes);
}

/* The requests of all slots are taken at one look, the lowest number first, also around the end of the numbers. */
static void test_requests_are_taken_in_their_order(void **state)
{
    static const char *const modes[] = {"all", "off", "sampled"};
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        post_at(5 - i, UINT32_MAX - 1 + i + i / 2, request_of(MAILBOX_SET, "spans.stacks", modes[i], 0), true);
    mailbox_look();
    for (unsigned i = 3; i < 6; i++)
        assert_int_equal(load_relaxed(&mailbox.words[i].answered), load_relaxed(&mailbox.words[i].asked));
    assert_int_equal(load_relaxed(&stacks_mode), STACKS_SAMPLED);
    assert_int_equal(ask_here(MAILBOX_SET, "spans.stacks", "off", 0), 0);
}

static void test_values_have_kinds(void **state)
{
    (void)state;
    assert_int_equal(ask_here(MAILBOX_SET, "arenas.dirty_decay_ms", "-1", (uint64_t)-1), 0);
    assert_int_equal(ask_here(MAILBOX_GET, "arenas.dirty_decay_ms", "", 0), 0);
    assert_int_equal(answer->kind, MAILBOX_SIGNED);
    assert_int_equal((int64_t)answer->value, -1);
    assert_int_equal(ask_here(MAILBOX_GET, "opt.abort", "", 0), 0);
    assert_int_equal(answer->kind, MAILBOX_BOOL);
    assert_int_equal(ask_here(MAILBOX_GET, "arenas.narenas", "", 0), 0);
    assert_int_equal(answer->kind, MAILBOX_UNSIGNED);
    assert_true(answer->value > 0 && answer->value < 5000);
    assert_int_equal(ask_here(MAILBOX_SET, "spans.stacks", "all", 0), 0);
    assert_int_equal(ask_here(MAILBOX_GET, "spans.stacks", "", 0), 0);
    assert_string_equal(answer->words, "all");
    assert_int_equal(ask_here(MAILBOX_SET, "spans.stacks", "fish", 0), EINVAL);
    assert_int_equal(ask_here(MAILBOX_SET, "spans.stacks", "off", 0), 0);
    assert_int_equal(ask_here(MAILBOX_SET, "background_thread", "2", 2), EINVAL);
    assert_int_equal(ask_here(MAILBOX_CALL, "arena.4096.purge", "", 0), 0);
    assert_int_equal(ask_here(MAILBOX_GET, "spans.99999.inuse_bytes", "", 0), ENOENT);
}

/* Names of the calling thread, addresses, files. */
static void test_other_names_are_refused(void **state)
{
    static const char *const names[] = {"thread.arena", "thread.tcache.flush", "thread.allocatedp", "tcache.create", "arenas.create",
                                        "arenas.lookup", "arena.0.extent_hooks", "arena.0.reset", "arena.0.destroy", "prof.dump",
                                        "prof.prefix", "spans.dump", "spans.dump_time", "spans.ids", "spans.outlived", "spans.1.labels",
                                        "spans.1.ages", "spans.1.total.ages", "spans.arenas.1.value", "experimental.batch_alloc", "", "x"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (uint32_t verb = 0; verb < 5; verb++)
            assert_int_equal(ask_here((enum mailbox_verb)verb, names[i], "/tmp/x", 1), EPERM);
    assert_int_equal(ask_here(MAILBOX_SET, "stats.allocated", "1", 1), EPERM);
    assert_int_equal(ask_here(MAILBOX_CALL, "spans.stacks", "all", 1), EPERM);
    assert_int_equal(ask_here((enum mailbox_verb)UINT32_MAX, "spans.stacks", "all", 1), EPERM);
}

static void test_damaged_requests_do_nothing(void **state)
{
    struct mailbox_request request = request_of(MAILBOX_SET, "spans.stacks", "all", 0);
    (void)state;
    memset(answer, 0, sizeof *answer);
    post(request, false);
    mailbox_look();
    assert_true(is_answered() && !answer->token);
    memset(request.name, 'x', sizeof request.name);
    post(request, true);
    mailbox_look();
    assert_true(is_answered() && !answer->token);
    request = request_of(MAILBOX_SET, "spans.stacks", "", 0);
    memset(request.words, 'x', sizeof request.words);
    post(request, true);
    mailbox_look();
    assert_true(is_answered() && !answer->token);
    assert_int_equal(ask_here(MAILBOX_GET, "spans.stacks", "", 0), 0);
    assert_string_equal(answer->words, "off");
}

static uint64_t next_random(void)
{
    static uint64_t state_of_random = 20261124;
    state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
    return state_of_random >> 17 ^ state_of_random << 13;
}

static void test_requests_by_chance_do_no_harm(void **state)
{
    static const char *const names[] = {"spans.stacks", "spans.1.limit_hard", "spans.4.limit_soft", "spans.arenas.1.limit_bytes",
                                        "spans.all.opens", "spans.2.name", "arena.0.purge", "arena.0.dirty_decay_ms", "epoch",
                                        "stats.arenas.0.bins.1.nregs", "spans.epoch", "opt.dss", "arena.0.dss", "spans.retired.x"};
    (void)state;
    for (int i = 0; i < RANDOM_REQUESTS; i++) {
        const char *name = names[next_random() % (sizeof names / sizeof names[0])];
        struct mailbox_request request = request_of((enum mailbox_verb)(next_random() % 5), name, "all", next_random());
        for (uint64_t n = next_random() % 3; n; n--)
            request.name[next_random() % 28] = next_random() % 3 ? "0123456789.*%s"[next_random() % 14] : (char)next_random();
        memcpy(request.words + next_random() % 8, (uint64_t[]){next_random()}, 8);
        request.has_value = (uint32_t)(next_random() % 2);
        if (next_random() % 10 == 0)
            memset(&request, (int)next_random(), sizeof request);
        post(request, next_random() % 20 != 0);
        mailbox_look();
        assert_true(is_answered());
    }
    assert_int_equal(ask_here(MAILBOX_SET, "spans.stacks", "off", 0), 0);
    assert_int_equal(ask_here(MAILBOX_SET, "spans.1.limit_hard", "", 0), 0);
}

static void test_a_child_leaves_the_request_of_its_parent(void **state)
{
    int status;
    (void)state;
    post(request_of(MAILBOX_SET, "spans.stacks", "all", 0), true);
    post_at(7, load_relaxed(&words_here->asked) + 1, request_of(MAILBOX_SET, "spans.stacks", "all", 0), true);
    pid_t pid = fork();
    if (!pid) {
        bool is_left = is_answered() && load_relaxed(&slow_work) == 0;
        atomic_fetch_or(&slow_work, SLOW_MAIL);
        mailbox_look();
        _exit(!is_left || load_relaxed(&stacks_mode) != STACKS_OFF ||
              ask_here(MAILBOX_GET, "spans.stacks", "", 0) || strcmp(answer->words, "off") != 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    mailbox_look();
    assert_int_equal(ask_here(MAILBOX_SET, "spans.stacks", "off", 0), 0);
}

/* ---- From another process ---- */

static void *churn(void *unused)
{
    for (void *p[64];;) {
        for (int i = 0; i < 64; i++)
            p[i] = F(malloc)(32 + 16 * (size_t)i);
        for (int i = 0; i < 64; i++)
            F(free)(p[i]);
    }
    return unused;
}

/* The program runs when this returns: as long as it is in fork(), it drops requests. */
static pid_t start_program(bool churns)
{
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid) {
        close(ready[1]);
        assert_int_equal(read(ready[0], &byte, 1), 1);
        close(ready[0]);
        return pid;
    }
    pthread_t thread;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    for (int i = 0; churns && i < CHURNERS; i++)
        pthread_create(&thread, NULL, churn, NULL);
    if (write(ready[1], &byte, 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static void end_program(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static uint64_t later(uint64_t seconds)
{
    return clock_ns(CLOCK_MONOTONIC) + seconds * 1000000000u;
}

static int ask_there(struct mailbox_outside *m, enum mailbox_verb verb, const char *name, const char *words, struct mailbox_answer *to,
                     uint64_t until_ns)
{
    struct mailbox_request request = request_of(verb, name, words, 0);
    int error;
    do /* as the command does: a process that was forked just now has not executed it */
        error = mailbox_ask(m, &request, to, until_ns, MAILBOX_TAKE_BACK);
    while (error == -EAGAIN);
    return error ? error : to->error;
}

/* Sets a word and reads it back under one lock, so the other asker cannot come in between. */
static int ask_often(pid_t pid)
{
    for (int i = 0; i < ASKED_EACH; i++) {
        struct mailbox_outside m;
        struct mailbox_answer to;
        const char *mode = i % 2 ? "off" : "sampled";
        if (mailbox_open(&m, pid, later(600)))
            return 1;
        if (ask_there(&m, MAILBOX_SET, "spans.stacks", mode, &to, later(600)) ||
            ask_there(&m, MAILBOX_GET, "spans.stacks", "", &to, later(600)) || strcmp(to.words, mode) != 0)
            return 2;
        mailbox_close(&m);
    }
    return 0;
}

static void test_two_processes_ask_at_once(void **state)
{
    pid_t program = start_program(true), askers[ASKERS];
    int status;
    (void)state;
    for (int i = 0; i < ASKERS; i++) {
        askers[i] = fork();
        if (!askers[i])
            _exit(ask_often(program));
    }
    for (int i = 0; i < ASKERS; i++) {
        assert_int_equal(waitpid(askers[i], &status, 0), askers[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(kill(program, 0), 0);
    end_program(program);
}

static void test_a_request_that_nobody_takes_is_withdrawn(void **state)
{
    pid_t pid = start_program(false);
    struct mailbox_outside m, second;
    struct mailbox_answer to;
    (void)state;
    assert_int_equal(mailbox_open(&m, pid, later(600)), 0);
    assert_int_equal(mailbox_open(&second, pid, later(0)), -EBUSY);
    struct mailbox_request request = request_of(MAILBOX_SET, "spans.stacks", "all", 0);
    assert_int_equal(mailbox_ask(&m, &request, &to, later(0), MAILBOX_TAKE_BACK), -ETIMEDOUT);
    struct mailbox left;
    assert_int_equal(pread(m.memory, &left, sizeof left, (off_t)m.at), sizeof left);
    for (unsigned i = 0; i < MAILBOX_SLOTS; i++) {
        assert_int_equal(left.words[i].asked, left.words[i].taken);
        assert_true(left.request[i].token != request.token);
    }
    end_program(pid);
    assert_int_equal(ask_there(&m, MAILBOX_GET, "spans.stacks", "", &to, later(600)), -ESRCH);
    mailbox_close(&m);
    assert_int_equal(mailbox_open(&m, pid, later(600)), -ESRCH);
}

static int leave_there(struct mailbox_outside *m, const char *name, const char *words)
{
    struct mailbox_request request = request_of(MAILBOX_SET, name, words, 0);
    struct mailbox_answer to;
    return mailbox_ask(m, &request, &to, later(0), MAILBOX_LEAVE);
}

/* Returns how many requests wait there; the last of them in *entry. */
static unsigned count_waiting(const struct mailbox_outside *m, struct mailbox_entry *entry, unsigned *slot)
{
    unsigned n = 0;
    for (unsigned i = 0; i < MAILBOX_SLOTS; i++) {
        struct mailbox_entry e;
        assert_int_equal(mailbox_read(m, i, &e), 0);
        if (e.state == MAILBOX_WAITS) {
            n++;
            *entry = e;
            *slot = i;
        }
    }
    return n;
}

static void test_requests_are_left_replaced_and_taken_back(void **state)
{
    pid_t pid = start_program(false);
    struct mailbox_outside m;
    struct mailbox_entry entry;
    unsigned slot = 0;
    char name[40];
    (void)state;
    assert_int_equal(mailbox_open(&m, pid, later(600)), 0);
    assert_int_equal(leave_there(&m, "spans.stacks", "all"), -EINPROGRESS);
    assert_int_equal(leave_there(&m, "spans.stacks", "sampled"), -EINPROGRESS);
    assert_int_equal(count_waiting(&m, &entry, &slot), 1);
    assert_string_equal(entry.request.words, "sampled");
    for (int i = 1; i < MAILBOX_SLOTS; i++) {
        snprintf(name, sizeof name, "spans.%d.limit_hard", i);
        assert_int_equal(leave_there(&m, name, "5"), -EINPROGRESS);
    }
    assert_int_equal(leave_there(&m, "spans.99.limit_hard", "5"), -ENOSPC);
    for (unsigned n = MAILBOX_SLOTS; n; n--) {
        assert_int_equal(count_waiting(&m, &entry, &slot), n);
        assert_int_equal(mailbox_take_back(&m, slot), 0);
        assert_int_equal(mailbox_take_back(&m, slot), -EBUSY);
    }
    assert_int_equal(count_waiting(&m, &entry, &slot), 0);
    mailbox_close(&m);
    end_program(pid);
}

/* Whatever the words and texts of a hostile program are, reading and asking end. */
static void test_hostile_slots_are_read(void **state)
{
    pid_t pid = start_program(false);
    struct mailbox_outside m;
    struct mailbox_entry entry;
    (void)state;
    assert_int_equal(mailbox_open(&m, pid, later(600)), 0);
    for (int i = 0; i < 300; i++) {
        static struct mailbox noise;
        for (size_t k = 0; k < sizeof noise / 8; k++)
            ((uint64_t *)&noise)[k] = i % 3 ? next_random() : UINT64_MAX;
        for (size_t k = 0; k < MAILBOX_SLOTS; k++)
            if (i % 2)
                store_relaxed(&noise.words[k].answered, load_relaxed(&noise.words[k].taken));
        assert_int_equal(pwrite(m.memory, &noise, sizeof noise, (off_t)m.at), sizeof noise);
        for (unsigned k = 0; k < MAILBOX_SLOTS; k++) {
            assert_int_equal(mailbox_read(&m, k, &entry), 0);
            assert_true(strlen(entry.request.name) < sizeof entry.request.name && strlen(entry.answer.words) < sizeof entry.answer.words);
        }
        int error = leave_there(&m, "spans.stacks", "all");
        assert_true(error == -EINPROGRESS || error == -ENOSPC || error == -EAGAIN);
    }
    mailbox_close(&m);
    end_program(pid);
}

static int may_read_others(void **state)
{
    (void)state;
    pid_t pid = start_program(false);
    struct mailbox_outside m;
    int error = mailbox_open(&m, pid, later(600));
    if (!error)
        mailbox_close(&m);
    end_program(pid);
    if (error == -EPERM)
        skip();
    return error;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_answered_by_free_and_by_malloc),
        cmocka_unit_test(test_an_allocation_that_finds_its_class_hidden_looks),
        cmocka_unit_test(test_figures_are_exact_while_classes_are_hidden),
        cmocka_unit_test(test_requests_are_taken_in_their_order),
        cmocka_unit_test(test_values_have_kinds),
        cmocka_unit_test(test_other_names_are_refused),
        cmocka_unit_test(test_damaged_requests_do_nothing),
        cmocka_unit_test(test_a_child_leaves_the_request_of_its_parent),
        cmocka_unit_test_setup(test_two_processes_ask_at_once, may_read_others),
        cmocka_unit_test_setup(test_a_request_that_nobody_takes_is_withdrawn, may_read_others),
        cmocka_unit_test_setup(test_requests_are_left_replaced_and_taken_back, may_read_others),
        cmocka_unit_test_setup(test_hostile_slots_are_read, may_read_others),
        cmocka_unit_test(test_requests_by_chance_do_no_harm),
    };
    void (*volatile wanted)(const struct mailbox_request *, struct mailbox_answer *) = mailbox_execute; /* links it */
    assert_true(wanted);
    return cmocka_run_group_tests(tests, boot, NULL);
}
