/* SPDX-License-Identifier: BSD-2-Clause */
/* For stats_print.sh: has known memory in use, and prints the statistics.
 *
 *   print [OPTIONS]   malloc_stats_print() to standard output
 *   message OPTIONS   the same by malloc_message, which the program sets
 *   null OPTIONS      the same without a function
 *   stats             malloc_stats()
 *   exit              nothing: jemalloc prints at exit, if MALLOC_CONF says so
 *   exit-message      the same by malloc_message
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jespan/limit.h>

void malloc_stats_print(void (*write)(void *opaque, const char *text), void *opaque, const char *options);
extern void (*malloc_message)(void *opaque, const char *text);

JESPAN_SITE_ARENA(cache_site, "cache", JESPAN_ARENA);

static void *volatile kept;

static void hold_by_a_hostile_name(void)
{
    JESPAN("</script>\"\\\n\xff\xf0\x9f\xa6\x80", "tenant", "a\"b\\c\xfe");
    kept = malloc(8 << 20);
}

static void hold(int number)
{
    JESPAN_WITH("span", JESPAN_LABEL_INT("n", number));
    kept = malloc(100000 + (size_t)number * 10000);
}

static void hold_in_arena(void)
{
    jespan_span_t *span = jespan_open(&cache_site, JESPAN_ROOT, NULL, 0);
    jespan_enter(span);
    jespan_set_limit(jespan_current(), 5 << 20, 9 << 20);
    kept = malloc(3 << 20);
    jespan_exit(span);
}

/* `opaque` is a descriptor's address. A callback may allocate, and ask. */
static void print(void *opaque, const char *text)
{
    free(malloc(100));
    if (write(*(int *)opaque, text, strlen(text)) < 0)
        exit(9);
}

static void message(void *opaque, const char *text)
{
    int out = 1;
    if (opaque)
        exit(8);
    print(&out, text);
}

int main(int argc, char **argv)
{
    int out = 1;
    hold_by_a_hostile_name();
    for (int i = 0; i < 30; i++)
        hold(i);
    hold_in_arena();
    const char *mode = argc > 1 ? argv[1] : "", *options = argc > 2 ? argv[2] : NULL;
    if (!strcmp(mode, "print"))
        malloc_stats_print(print, &out, options);
    else if (!strcmp(mode, "message"))
        malloc_message = message, malloc_stats_print(NULL, NULL, options);
    else if (!strcmp(mode, "null"))
        malloc_stats_print(NULL, NULL, options);
    else if (!strcmp(mode, "exit-message"))
        malloc_message = message;
    else if (strcmp(mode, "exit"))
        malloc_stats();
    return 0;
}
