/* SPDX-License-Identifier: BSD-2-Clause */
/* For conf.sh: prints the effects of the configuration. With -DWITH_CONF="…" it defines jespan_conf itself. */
#include <fcntl.h>

#include <jespan/jespan.h>

#include "../support/ctl.h"

#ifdef WITH_CONF
extern const char *jespan_conf;
const char *jespan_conf = WITH_CONF;
#endif

/* How many contexts can be open at once, up to 2000, tells max_contexts. */
static unsigned contexts_that_fit(void)
{
    JESPAN_SITE(site, "one of many");
    unsigned fit = 0;
    for (unsigned i = 0; i < 2000; i++) {
        char text[16];
        snprintf(text, sizeof text, "%u", i);
        struct jespan_label label = JESPAN_LABEL("number", text);
        jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, &label, 1);
        jespan_enter(span);
        fit += jespan_current() != JESPAN_ROOT;
        jespan_exit(span);
    }
    return fit;
}

#ifdef WITH_THREADS
static void say_threads(void)
{
    char text[4096] = "", line[32];
    int fd = open("/proc/self/status", O_RDONLY);
    ssize_t n = read(fd, text, sizeof text - 1);
    const char *threads = n > 0 ? strstr(text, "Threads:") : NULL;
    int length = snprintf(line, sizeof line, "threads %d\n", threads ? atoi(threads + 8) : -1);
    CHECK(write(STDOUT_FILENO, line, (size_t)length) == length);
}
#endif

int main(void)
{
#ifdef WITH_THREADS
    say_threads();
#endif
    ctl_refresh();
    int by_thread = strncmp(ctl_span_text(jespan_current(), "kind"), "thread", 6) == 0;
    unsigned fit = contexts_that_fit();
    char line[80];
    int n = snprintf(line, sizeof line, "contexts %s thread_contexts %s\n",
                     fit == 2000 ? "many" : fit > 200 ? "some" : "few", by_thread ? "true" : "false");
    return write(STDOUT_FILENO, line, (size_t)n) == n ? check_result() : 2;
}
