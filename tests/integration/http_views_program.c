/* SPDX-License-Identifier: BSD-2-Clause */
/* THREADS CONTEXTS: as many threads, most of them one after the other, and as many contexts. Names have what a page or JSON could
 * trip over: markup, quotes, bytes that are no UTF-8, and 4000 bytes. Prints "ready" and waits. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jespan/jespan.h>

static void *volatile kept[100000];
static char long_name[4001];

static void *work(void *number)
{
    static const char *const names[] = {"<b>", "\"'\\", "\xff\xfe\n", "plain"};
    long n = (long)(intptr_t)number;
    pthread_setname_np(pthread_self(), names[n % 4]);
    JESPAN("work");
    kept[n] = malloc(100);
    if (n % 500 == 0)
        pause();
    return NULL;
}

int main(int argc, char **argv)
{
    long n_threads = argc > 2 ? atol(argv[1]) : 1, n_contexts = argc > 2 ? atol(argv[2]) : 1;
    pthread_t thread;
    char text[16];
    memset(long_name, 'x', sizeof long_name - 1);
    for (long i = 0; i < n_threads; i++) {
        if (pthread_create(&thread, NULL, work, (void *)(intptr_t)i))
            return 1;
        if (i % 500)
            pthread_join(thread, NULL);
    }
    for (long i = 0; i < n_contexts; i++) {
        snprintf(text, sizeof text, "%ld", i);
        JESPAN("many", "n", text);
        kept[n_threads + i] = malloc(64);
    }
    {
        JESPAN("</script><script>alert(\"1\")</script>\xff\n");
        memset(kept[n_threads + n_contexts] = malloc(1 << 20), 1, 1 << 20);
    }
    {
        JESPAN("long", "label", long_name);
        memset(kept[n_threads + n_contexts + 1] = malloc(2 << 20), 1, 2 << 20);
    }
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
