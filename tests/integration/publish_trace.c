/* SPDX-License-Identifier: BSD-2-Clause */
/* jespan_publish_trace() beside another library that publishes thread contexts, and the process context of a forked child. The
 * program defines the variable, as a library would that is linked into it. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jespan/jespan.h>

#include "../support/check.h"

extern const char *jespan_conf;
const char *jespan_conf = "otel_context:true";

struct record {
    uint8_t trace_id[16], span_id[8], is_valid, flags;
    uint16_t bytes;
};
extern __thread const struct record *volatile otel_thread_ctx_v1;
__attribute__((weak)) __thread const struct record *volatile otel_thread_ctx_v1; /* weak: sanitizer builds link jespan statically */

static const struct jespan_traceparent trace = {"4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", JESPAN_TRACE_SAMPLED};

static void publishes(void)
{
    static const struct record expected = {{0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36},
                                           {0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7}, 1, 1, 0};
    CHECK_EQ(jespan_publish_trace(NULL), 0);
    CHECK(!otel_thread_ctx_v1);
    CHECK_EQ(jespan_publish_trace(&trace), 0);
    CHECK(otel_thread_ctx_v1 && memcmp(otel_thread_ctx_v1, &expected, sizeof expected) == 0);
}

static void *publishes_nothing_yet(void *unused)
{
    (void)unused;
    CHECK(!otel_thread_ctx_v1);
    publishes();
    return NULL;
}

static void refuses(void)
{
    static const char *const wrong[][2] = {
        {"00000000000000000000000000000000", "00f067aa0ba902b7"}, {"4bf92f3577b34da6a3ce929d0e0e4736", "0000000000000000"},
        {"4bf92f3577b34da6a3ce929d0e0e473", "00f067aa0ba902b7"},  {"4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b"},
        {"4bf92f3577b34da6a3ce929d0e0e473x", "00f067aa0ba902b7"}, {"", ""},
    };
    const struct record *before = otel_thread_ctx_v1;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct jespan_traceparent t = {.flags = 0};
        strcpy(t.trace_id, wrong[i][0]);
        strcpy(t.span_id, wrong[i][1]);
        CHECK_EQ(jespan_publish_trace(&t), EINVAL);
        CHECK(otel_thread_ctx_v1 == before);
    }
}

static void leaves_other_libraries_alone(void)
{
    static const struct record others = {.is_valid = 1};
    otel_thread_ctx_v1 = &others;
    CHECK_EQ(jespan_publish_trace(&trace), EBUSY);
    CHECK_EQ(jespan_publish_trace(NULL), EBUSY);
    CHECK(otel_thread_ctx_v1 == &others);
    otel_thread_ctx_v1 = NULL;
    publishes();
}

/* ---- The process context ---- */

struct header {
    char signature[8];
    uint32_t version, bytes;
    uint64_t published_ns, message;
};

static const struct header *context(void)
{
    const struct header *found = NULL;
    char line[512];
    unsigned long start;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "OTEL_CTX") && sscanf(line, "%lx", &start) == 1) {
            CHECK(!found);
            found = (const void *)start;
        }
    if (maps)
        fclose(maps);
    CHECK(found && memcmp(found->signature, "OTEL_CTX", 8) == 0 && found->version == 2 && found->published_ns);
    return found;
}

/* It has the number of the process. */
static void child_has_its_own(void)
{
    const struct header *parents = context();
    if (!parents)
        return;
    size_t bytes = parents->bytes;
    void *message = malloc(bytes);
    memcpy(message, (const void *)(uintptr_t)parents->message, bytes);
    pid_t child = fork();
    if (child == 0) {
        const struct header *own = context();
        CHECK(own && (own->bytes != bytes || memcmp((const void *)(uintptr_t)own->message, message, bytes) != 0));
        CHECK(otel_thread_ctx_v1); /* the thread still works for the trace */
        _exit(check_result());
    }
    CHECK_CHILD(child);
    free(message);
}

int main(void)
{
    pthread_t other;
    publishes_nothing_yet(NULL);
    pthread_create(&other, NULL, publishes_nothing_yet, NULL);
    pthread_join(other, NULL);
    refuses();
    leaves_other_libraries_alone();
    child_has_its_own();
    return check_result();
}
