/* SPDX-License-Identifier: BSD-2-Clause */
/* The process context of OpenTelemetry, as OTEP 4719 lays it out, in the version of August 2026.
 *
 * A mapping with a name has a header, which leads to a message of protobuf: the resource attributes of the process, and how
 * threads publish their contexts (base/otel_context.h). jespan writes it once, at its start. The message follows the header.
 */
#include "report/process_context.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/encode.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "conf/conf.h"

#define NAME "OTEL_CTX"
#define VERSION 2

struct header {
    char signature[8]; /* without a NUL */
    uint32_t version;
    uint32_t message_bytes;
    _Atomic uint64_t published_ns; /* of CLOCK_BOOTTIME; 0: the rest is not complete */
    uint64_t message;              /* its address */
};
_Static_assert(sizeof(struct header) == 32, "OTEP 4719");

#ifndef MFD_NOEXEC_SEAL /* Linux 6.3 */
#define MFD_NOEXEC_SEAL 8u
#endif
#ifndef PR_SET_VMA /* Linux 5.17 */
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

/* ---- The message: protobuf by hand ---- */

/* A message is written backwards, so that its length is known when its head is written. `at` is where it begins. With text that
 * does not fit, `is_full` is set and nothing counts. */
struct writer {
    uint8_t *start, *at;
    bool is_full;
};

static void put_bytes(struct writer *w, const void *bytes, size_t n)
{
    if ((size_t)(w->at - w->start) < n) {
        w->is_full = true;
        return;
    }
    w->at -= n;
    memcpy(w->at, bytes, n);
}

static void put_number(struct writer *w, uint64_t n)
{
    uint8_t bytes[10];
    size_t length = 0;
    do
        bytes[length++] = (uint8_t)(n & 0x7f) | (n > 0x7f ? 0x80 : 0);
    while (n >>= 7);
    put_bytes(w, bytes, length);
}

/* The head of field `number`, whose content reaches from `at` to `end`. */
static void put_head(struct writer *w, unsigned number, const uint8_t *end)
{
    put_number(w, (uint64_t)(end - w->at));
    put_number(w, number << 3 | 2);
}

/* A string has to be UTF-8, so other bytes become '?'. */
static void put_text(struct writer *w, unsigned number, const char *text)
{
    uint8_t *end = w->at;
    put_bytes(w, text, strlen(text));
    put_head(w, number, end);
    if (w->is_full)
        return;
    for (uint8_t *p = end - strlen(text); p < end; p++) {
        size_t bytes = utf8_character(text);
        *p = bytes ? *p : '?';
        p += bytes > 1 ? bytes - 1 : 0;
        text += bytes ? bytes : 1;
    }
}

/* KeyValue {key = 1, value = 2}; the value is written already, and ends at `end`. */
static void put_pair(struct writer *w, unsigned number, const char *key, const uint8_t *end)
{
    put_head(w, 2, end);
    put_text(w, 1, key);
    put_head(w, number, end);
}

/* AnyValue {string_value = 1, int_value = 3, array_value = 5} */
static void put_string_pair(struct writer *w, unsigned number, const char *key, const char *value)
{
    const uint8_t *end = w->at;
    put_text(w, 1, value);
    put_pair(w, number, key, end);
}

static void put_integer_pair(struct writer *w, unsigned number, const char *key, uint64_t value)
{
    const uint8_t *end = w->at;
    put_number(w, value);
    put_number(w, 3 << 3);
    put_pair(w, number, key, end);
}

static void put_empty_array_pair(struct writer *w, unsigned number, const char *key)
{
    const uint8_t *end = w->at;
    put_head(w, 5, end);
    put_pair(w, number, key, end);
}

/* ---- What is in it ---- */

enum { RESOURCE = 1, ATTRIBUTES = 2 }; /* of ProcessContext */
enum { RESOURCE_ATTRIBUTES = 1 };      /* of Resource */

/* Whether a key is in the list of `resource_attributes` before `until`. */
static bool is_listed(const char *key, const char *until)
{
    const char *list = conf.resource_attributes;
    for (struct list_item item; list_next(&list, &item) && item.text < until;)
        if (list_name_bytes(&item) == strlen(key) && !memcmp(item.text, key, strlen(key)))
            return true;
    return false;
}

static void put_listed(struct writer *w)
{
    const char *list = conf.resource_attributes;
    for (struct list_item item; list_next(&list, &item);) {
        char key[CONF_STRING_BYTES], value[CONF_STRING_BYTES];
        size_t key_bytes = list_name_bytes(&item);
        if (key_bytes == 0)
            continue;
        size_t value_bytes = item.bytes - key_bytes - 1;
        memcpy(key, item.text, key_bytes);
        key[key_bytes] = '\0';
        memcpy(value, item.text + key_bytes + 1, value_bytes);
        value[value_bytes] = '\0';
        percent_decode(value);
        if (!is_listed(key, item.text) && !(conf.pyroscope_app[0] && !strcmp(key, "service.name")))
            put_string_pair(w, RESOURCE_ATTRIBUTES, key, value);
    }
}

/* Each key once, and with the same values as in OTLP: exporters/otlp_source.c. */
static void put_resource(struct writer *w)
{
    char host[256] = "";
    const uint8_t *end = w->at;
    const char *all = conf.resource_attributes + strlen(conf.resource_attributes);
    if (!is_listed("process.executable.name", all))
        put_string_pair(w, RESOURCE_ATTRIBUTES, "process.executable.name", program_invocation_short_name);
    if (!is_listed("process.pid", all))
        put_integer_pair(w, RESOURCE_ATTRIBUTES, "process.pid", (uint64_t)getpid());
    if (!is_listed("host.name", all) && !gethostname(host, sizeof host - 1))
        put_string_pair(w, RESOURCE_ATTRIBUTES, "host.name", host);
    put_listed(w);
    if (conf.pyroscope_app[0] || !is_listed("service.name", all))
        put_string_pair(w, RESOURCE_ATTRIBUTES, "service.name", conf.pyroscope_app[0] ? conf.pyroscope_app : program_invocation_short_name);
    put_head(w, RESOURCE, end);
}

/* The records of threads have no attributes, so there are no keys. Readers know the schema by the name that it had before the
 * proposal was accepted. */
static void put_message(struct writer *w)
{
    put_empty_array_pair(w, ATTRIBUTES, "threadlocal.attribute_key_map");
    put_string_pair(w, ATTRIBUTES, "threadlocal.schema_version", "tlsdesc_v1_dev");
    put_resource(w);
}

/* ---- The mapping ---- */

/* A mapping of a memory file has a name on each kernel, and one of no file on some. */
static void *map_named(size_t bytes)
{
    int fd = memfd_create(NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0)
        fd = memfd_create(NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool is_file = fd >= 0 && ftruncate(fd, (off_t)bytes) == 0;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | (is_file ? 0 : MAP_ANONYMOUS), is_file ? fd : -1, 0);
    if (fd >= 0)
        close(fd);
    if (p != MAP_FAILED && madvise(p, bytes, MADV_DONTFORK) == 0)
        return p;
    if (p != MAP_FAILED)
        munmap(p, bytes);
    return NULL;
}

/* The name comes last, since it tells tracers of the call that the context is there. Not inlined: a fork without otel_context
 * needs no page for this stack. */
static NOINLINE void publish(void)
{
    enum { bytes = 16384 }; /* the keys have at most 2 * CONF_STRING_BYTES */
    struct header *h = map_named(bytes);
    if (!h)
        return;
    uint8_t *end = (uint8_t *)h + bytes;
    struct writer w = {(uint8_t *)(h + 1), end, false};
    put_message(&w);
    if (w.is_full) {
        munmap(h, bytes);
        return;
    }
    memcpy(h->signature, NAME, sizeof h->signature);
    h->version = VERSION;
    h->message_bytes = (uint32_t)(end - w.at);
    h->message = (uintptr_t)w.at;
    atomic_thread_fence(memory_order_seq_cst);
    atomic_store(&h->published_ns, clock_ns(CLOCK_BOOTTIME));
    prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, h, bytes, NAME);
}

COLD void process_context_start(void)
{
    if (!conf.otel_context)
        return;
    int saved = errno;
    publish();
    errno = saved;
}
