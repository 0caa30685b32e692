/* SPDX-License-Identifier: BSD-2-Clause */
/* Views of processes with damaged books: random bytes, cycles, sizes beyond all bounds. Each ends in an error or in a
 * snapshot that can be walked. Under a sanitizer this finds reads beyond the copies. */
#include <errno.h>
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
#include "heap/classes.h"
#include "heap/magazine.h"
#include "jespan/jespan.h"
#include "snapshot/snapshot.h"
#include "snapshot/view.h"

extern const char *jespan_conf; /* weak in conf.c */
const char *jespan_conf = "thread_contexts:false,max_contexts:1024";

enum { SPANS = 300, SEEDS = 150 };
static uint64_t state_of_random;

static uint64_t next_random(void)
{
    state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
    return state_of_random >> 17 ^ state_of_random << 13;
}

/* Values that numbers in damaged books may have. */
static uint64_t bad_word(void)
{
    switch (next_random() % 8) {
    case 0:
        return 0;
    case 1:
        return UINT64_MAX;
    case 2:
        return next_random();
    case 3:
        return next_random() % 5000;
    case 4:
        return (uint64_t)(uintptr_t)contexts + next_random() % 65536;
    case 5:
        return (uint64_t)(uintptr_t)&thread_orphan;
    case 6:
        return (uint64_t)(uintptr_t)thread_current->chunks + next_random() % 4096 / 8 * 8;
    default:
        return (uint64_t)1 << next_random() % 64;
    }
}

/* The sanitizers do not check the code that damages memory, because it may write anywhere. */
#define DAMAGES __attribute__((no_sanitize("address", "undefined")))

DAMAGES static void damage(void *p, size_t bytes, unsigned words)
{
    for (; words; words--) {
        uint64_t word = bad_word();
        volatile uint32_t *at = (uint32_t *)p + next_random() % (bytes / 4);
        at[0] = (uint32_t)word;
        if (next_random() % 2)
            at[1] = (uint32_t)(word >> 32);
    }
}

DAMAGES static void damage_labels(void)
{
    for (int i = 0; i < 20; i++) {
        struct context *c = &contexts[4 + next_random() % SPANS];
        switch (next_random() % 4) {
        case 0:
            c->label_bytes = (uint32_t)bad_word();
            break;
        case 1:
            c->label_count = (uint16_t)bad_word();
            break;
        case 2:
            if (c->labels)
                memset(c->labels->text, 'x', c->label_bytes < 40 ? c->label_bytes : 40);
            break;
        default:
            memset(&c->labels, (int)bad_word(), 8);
        }
    }
}

DAMAGES static void damage_parents(void)
{
    for (int i = 0; i < 50; i++)
        contexts[1 + next_random() % SPANS].parent = next_random() % 4 ? 1 + (uint32_t)(next_random() % SPANS) : (uint32_t)bad_word();
}

DAMAGES static void damage_sites(void)
{
    for (int i = 0; i < 5; i++) {
        struct site *s = (struct site *)(uintptr_t)contexts[1 + next_random() % SPANS].site;
        if (s)
            *(&s->name + next_random() % 3) = (const char *)(uintptr_t)bad_word();
    }
}

DAMAGES static void damage_something(void)
{
    struct thread *t = thread_current;
    switch (next_random() % 12) {
    case 0:
        damage(&contexts[1], SPANS * sizeof *contexts, 100);
        break;
    case 1:
        damage(context_lives, SPANS * sizeof *context_lives, 100);
        break;
    case 2:
        store_relaxed(&tree_next_id, (uint32_t)bad_word());
        break;
    case 3:
        store_relaxed(&t->next, next_random() % 2 ? t : (struct thread *)(uintptr_t)bad_word());
        break;
    case 4:
        damage(t, offsetof(struct thread, magazine), 50);
        break;
    case 5:
        damage(t->chunks, 4096, 50);
        break;
    case 6:
        damage(load_relaxed(&t->chunks[0]), sizeof(struct counters_chunk), 300);
        break;
    case 7:
        damage_labels();
        break;
    case 8:
        damage_parents();
        break;
    case 9:
        damage_sites();
        break;
    case 10:
        damage(class_bytes, sizeof class_bytes, 20);
        damage(magazine_max, sizeof magazine_max, 20);
        damage(&t->cpu, sizeof t->cpu, 10);
        damage(&clock_state, sizeof clock_state, 3);
        break;
    default:
        damage(next_random() % 2 ? (void *)&contexts : (void *)&context_bases, 8, 1);
        damage(&contexts_retired, sizeof contexts_retired, 5);
    }
}

static void circle_of_parents(void)
{
    contexts[10].parent = 11;
    contexts[11].parent = 12;
    contexts[12].parent = 10;
}

static void circle_of_threads(void)
{
    store_relaxed(&thread_current->next, thread_current);
}

static void endless_labels(void)
{
    for (uint32_t id = 4; id < SPANS; id++)
        contexts[id].label_bytes = LABEL_TEXT_MAX - id % 9;
}

static void labels_without_end(void)
{
    for (uint32_t id = 4; id < SPANS; id++) {
        contexts[id].label_count = JESPAN_MAX_LABELS;
        memset(contexts[id].labels->text, 'x', contexts[id].label_bytes);
    }
}

static void contexts_without_end(void)
{
    store_relaxed(&tree_next_id, CONTEXTS_MAX);
}

static void (*const certain[])(void) = {circle_of_parents, circle_of_threads, endless_labels, labels_without_end, contexts_without_end};

/* Reads everything that an exporter reads. */
static uint64_t walk(const struct snapshot *s)
{
    uint64_t sum = s->all.alloc_bytes;
    for (uint32_t i = 0; i < s->n_rows; i++) {
        const struct snapshot_row *row = &s->rows[i];
        sum += strlen(row->name) + strlen(row->target) + strlen(row->file) + strlen(kind_text(row->kind));
        for (uint32_t j = 0; j < row->n_labels; j++)
            sum += strlen(row->labels[j].key) + strlen(row->labels[j].value);
        uint32_t steps = 0;
        for (uint32_t up = i; up; up = s->rows[up].parent_row)
            assert_true(steps++ <= s->n_rows && s->rows[up].parent_row < s->n_rows);
    }
    for (uint32_t i = 0; i < s->n_ages; i++)
        assert_true(s->ages[i].row < s->n_rows);
    return sum + snapshot_inclusive(s, s->n_rows / 2).alloc_bytes;
}

static int ready[2];

/* Also if the damage hit the code that does it. */
static void wait_for_the_end(int unused)
{
    (void)unused;
    (void)!write(ready[1], "", 1);
    for (;;)
        pause();
}

/* Returns 0 if the damage ended the process. */
static pid_t damaged_process(uint64_t number)
{
    char any;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        state_of_random = 977 * number;
        signal(SIGSEGV, wait_for_the_end);
        signal(SIGBUS, wait_for_the_end);
        if (number < sizeof certain / sizeof certain[0])
            certain[number]();
        else
            for (uint64_t n = 1 + next_random() % 3; n; n--)
                damage_something();
        wait_for_the_end(0);
    }
    close(ready[1]);
    ssize_t bytes = read(ready[0], &any, 1);
    close(ready[0]);
    if (bytes != 1) {
        waitpid(pid, NULL, 0);
        return 0;
    }
    return pid;
}

static void test_damaged_books_give_an_error_or_a_snapshot(void **state)
{
    int opened = 0, taken = 0;
    (void)state;
    for (uint64_t number = 0; number < SEEDS; number++) {
        struct view *view;
        pid_t pid = damaged_process(number);
        if (!pid)
            continue;
        int error = view_open(&view, pid);
        if (!error) {
            struct snapshot *s = view_snapshot(view, NULL), *again = s ? view_snapshot(view, s) : NULL;
            assert_true(s || errno == EBADMSG || errno == EAGAIN || errno == ENOMEM);
            taken += s != NULL;
            if (s)
                assert_true(walk(again ? again : s) != 1);
            snapshot_free(again ? again : s);
            view_close(view);
            opened++;
        } else {
            assert_true(error == -EBADMSG || error == -EAGAIN || error == -ENOENT);
        }
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    assert_true(opened > SEEDS / 2 && taken > SEEDS / 4 && taken < SEEDS);
}

static int boot_with_spans(void **state)
{
    static const struct jespan_site site = {.name = "span"};
    if (boot(state))
        return -1;
    for (int i = 0; i < SPANS; i++) {
        char text[8];
        snprintf(text, sizeof text, "%d", i);
        const struct jespan_label labels[] = {{"n", text}, JESPAN_LABEL_INT("i", i)};
        jespan_span_t *span = jespan_open(&site, i % 3 ? JESPAN_ROOT : jespan_current(), labels, 2);
        jespan_enter(span);
        (void)!F(malloc)(64);
        F(free)(F(malloc)(32));
        jespan_exit(span);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_damaged_books_give_an_error_or_a_snapshot)};
    return cmocka_run_group_tests(tests, boot_with_spans, NULL);
}
