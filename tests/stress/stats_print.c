/* SPDX-License-Identifier: BSD-2-Clause */
/* malloc_stats_print() by several threads, with small stacks, while others allocate, open spans, set limits and ask. Each text
 * is whole, and each document of JSON is balanced. stats_print.sh checks what they say. */
#include <jespan/limit.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "../support/check.h"
#include "../support/ctl.h"
#include "../support/family.h"

enum { WORKERS = 2, PRINTERS = 3, STACK_BYTES = 128 * 1024 };

static atomic_bool is_over;

static void *work(void *unused)
{
    (void)unused;
    for (unsigned i = 0; !atomic_load(&is_over); i++) {
        JESPAN_WITH("work", JESPAN_LABEL_INT("n", i % 100));
        void *p = F(malloc)(100 + i % 5000);
        if (i % 50 == 0)
            CHECK_EQ(jespan_set_limit(jespan_current(), 0, i % 100 ? 0 : 1 << 30), 0);
        F(free)(p);
    }
    return NULL;
}

struct seen {
    long depth;
    bool is_in_string, is_escaped, begins_with_brace;
    uint64_t bytes, sections, closed;
    char last[40];
};

static void look(void *seen, const char *text)
{
    struct seen *s = seen;
    F(free)(F(malloc)(50));
    s->begins_with_brace |= s->bytes == 0 && text[0] == '{';
    for (; *text; text++, s->bytes++) {
        memmove(s->last, s->last + 1, sizeof s->last - 2);
        s->last[sizeof s->last - 2] = *text;
        if (s->is_in_string) {
            s->is_in_string = s->is_escaped || *text != '"';
            s->is_escaped = !s->is_escaped && *text == '\\';
            continue;
        }
        s->is_in_string = *text == '"' && s->begins_with_brace;
        s->depth += (*text == '{' || *text == '[') - (*text == '}' || *text == ']');
        s->closed += s->begins_with_brace && *text == '}' && s->depth == 0;
    }
}

static void *print(void *is_json)
{
    for (uint64_t i = 0, n = check_rounds("PRINTS", 30); i < n; i++) {
        struct seen seen = {0};
        F(malloc_stats_print)(look, &seen, is_json ? "Jmdablxe" : "mdablxe");
        if (is_json)
            CHECK(seen.begins_with_brace && seen.closed == 1 && seen.depth == 0 && !seen.is_in_string && seen.bytes > 3000);
        else
            CHECK(strstr(seen.last, "--- End jespan statistics ---\n") != NULL);
    }
    return NULL;
}

int main(void)
{
    pthread_t workers[WORKERS], printers[PRINTERS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (int i = 0; i < WORKERS; i++)
        CHECK_EQ(pthread_create(&workers[i], NULL, work, NULL), 0);
    for (int i = 0; i < PRINTERS; i++)
        CHECK_EQ(pthread_create(&printers[i], &attributes, print, i ? "J" : NULL), 0);
    for (int i = 0; i < PRINTERS; i++)
        pthread_join(printers[i], NULL);
    atomic_store(&is_over, true);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    return check_result();
}
