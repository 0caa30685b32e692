/* SPDX-License-Identifier: BSD-2-Clause */
/* The configuration: the table and its reader. */
#include "conf.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "compiler.h"
#include "config.h"
#include "die.h"
#include "meta.h"

struct conf conf;

/* A program may define it. Weak here, so that a static link without it works too. */
EXPORT extern const char *jespan_conf __attribute__((weak));

#define KEY(name, type, min, max, text, help) {#name, type, offsetof(struct conf, name), min, max, text, help, NULL}
#define CHOICE(name, choices, text, help) {#name, CONF_CHOICE, offsetof(struct conf, name), 0, 0, text, help, choices}

const struct conf_key conf_keys[] = {
    KEY(max_contexts, CONF_NUMBER, 64, 1u << 24, "131072", "contexts at most; more are credited to an ancestor"),
    KEY(thread_contexts, CONF_BOOL, 0, 0, "true", "one context for each thread name outside spans"),
    CHOICE(track_time, "off|wall|cpu", "cpu", "times by context: none, wall and busy, CPU time too"),
    CHOICE(cpu_clock, "auto|rseq|thread|rusage", "auto", "where CPU time comes from"),
    KEY(age_period_s, CONF_NUMBER, 0, 86400 * 365, "0", "seconds to which ages of live memory are kept; 0: not kept"),
    KEY(inherit, CONF_BOOL, 0, 0, "false", "a new thread starts in the context of the thread that creates it"),
    KEY(sampler, CONF_STRING, 0, 0, "always", "which spans outside others have a context: always, never, 0.01, 100/s"),
    KEY(sampler_sites, CONF_STRING, 0, 0, "", "the same by name, NAME=SAMPLER|NAME=SAMPLER; the first that fits"),
    KEY(record_labels, CONF_STRING, 0, 0, "", "keys of the labels to record, separated by |; empty: all"),
    KEY(dump_dir, CONF_STRING, 0, 0, "", "directory for heap dumps; empty: none are written"),
    KEY(dump_interval_s, CONF_NUMBER, 0, 86400 * 365, "0", "seconds between heap dumps; 0: none on a timer"),
    KEY(dump_keep, CONF_NUMBER, 0, 1u << 30, "0", "newest dumps of this process to keep; 0: all"),
    KEY(dump_at_exit, CONF_BOOL, 0, 0, "false", "a heap dump when the program exits"),
    KEY(dump_time, CONF_BOOL, 0, 0, "false", "a time profile beside each heap dump"),
    KEY(follow_fork, CONF_BOOL, 0, 0, "false", "forked children dump too, under their own pid"),
    KEY(module_dir, CONF_STRING, 0, 0, JESPAN_MODULE_DIR, "where modules lie: exporters and reporters"),
    KEY(reporters, CONF_STRING, 0, 0, "", "reporter modules to load, separated by |"),
    KEY(reporter_interval_ms, CONF_NUMBER, 0, 86400000, "10000", "milliseconds between their rounds; 0: only the last"),
    KEY(shutdown_timeout_ms, CONF_NUMBER, 0, 3600000, "10000", "how long exit waits for the last dump and the reporters"),
    KEY(confirm_conf, CONF_BOOL, 0, 0, "false", "print the effective configuration at start"),
    {0},
};

static void *field(const struct conf_key *key)
{
    return (char *)&conf + key->offset;
}

static int set_number(const struct conf_key *key, const char *text)
{
    char *end;
    if (*text < '0' || *text > '9')
        return -1;
    unsigned long long n = 0;
    for (end = (char *)text; *end >= '0' && *end <= '9'; end++)
        if (__builtin_mul_overflow(n, 10ull, &n) || __builtin_add_overflow(n, (unsigned)(*end - '0'), &n))
            return -1;
    if (*end || n < key->minimum || n > key->maximum)
        return -1;
    *(uint64_t *)field(key) = n;
    return 0;
}

/* The length of the choice that begins at `at`. */
static size_t choice_length(const char *at)
{
    return strcspn(at, "|");
}

static int set_choice(const struct conf_key *key, const char *text)
{
    const char *at = key->choices;
    for (uint64_t i = 0;; i++) {
        size_t n = choice_length(at);
        if (strlen(text) == n && !strncmp(at, text, n)) {
            *(uint64_t *)field(key) = i;
            return 0;
        }
        if (!at[n])
            return -1;
        at += n + 1;
    }
}

static const char *choice_text(const struct conf_key *key, char *text, size_t bytes)
{
    const char *at = key->choices;
    for (uint64_t i = *(uint64_t *)field(key); i; i--)
        at += choice_length(at) + 1;
    text[0] = '\0';
    strncat(text, at, choice_length(at) < bytes ? choice_length(at) : bytes - 1);
    return text;
}

static int set(const struct conf_key *key, const char *text)
{
    switch (key->type) {
    case CONF_BOOL:
        if (strcmp(text, "true") && strcmp(text, "false"))
            return -1;
        *(bool *)field(key) = text[0] == 't';
        return 0;
    case CONF_NUMBER:
        return set_number(key, text);
    case CONF_STRING:
        if (strlen(text) >= CONF_STRING_BYTES)
            return -1;
        strcpy(field(key), text);
        return 0;
    case CONF_CHOICE:
        return set_choice(key, text);
    }
    return -1;
}

static void complain(const char *origin, const struct conf_key *key, const char *name, const char *value)
{
    char low[NUMBER_BYTES], high[NUMBER_BYTES];
    if (!key)
        WARN(origin, ": unknown key \"", name, "\" is ignored");
    else if (key->type == CONF_NUMBER)
        WARN(origin, ": ", name, ":\"", value, "\" is not a number from ", number_text(low, key->minimum, 10), " to ",
             number_text(high, key->maximum, 10), " and is ignored");
    else if (key->type == CONF_BOOL)
        WARN(origin, ": ", name, ":\"", value, "\" is neither true nor false and is ignored");
    else if (key->type == CONF_CHOICE)
        WARN(origin, ": ", name, ":\"", value, "\" is none of ", key->choices, " and is ignored");
    else
        WARN(origin, ": ", name, ": the value is too long and is ignored");
}

static void parse_pair(char *pair, const char *origin)
{
    char *colon = strchr(pair, ':');
    if (!colon) {
        WARN(origin, ": \"", pair, "\" is not key:value and is ignored");
        return;
    }
    *colon = '\0';
    const struct conf_key *key = conf_keys;
    while (key->name && strcmp(key->name, pair))
        key++;
    if (!key->name || set(key, colon + 1))
        complain(origin, key->name ? key : NULL, pair, colon + 1);
}

void conf_parse(const char *text, const char *origin)
{
    char pair[CONF_STRING_BYTES + 64];
    while (*text) {
        size_t n = strcspn(text, ",");
        if (n >= sizeof pair) {
            WARN(origin, ": a value longer than ", "1023 bytes is ignored");
        } else if (n) {
            memcpy(pair, text, n);
            pair[n] = '\0';
            parse_pair(pair, origin);
        }
        text += n + (text[n] == ',');
    }
}

#define ENVIRON_BYTES ((size_t)4 * 1024 * 1024) /* more than the kernel lets a program start with by default */

/* JESPAN_CONF from /proc, for an allocation that comes before libc has set up environ. The mapping stays, as the string
 * is in it. */
static COLD const char *early_environment(void)
{
    char *text = meta_map(ENVIRON_BYTES), *end = text;
    int fd = text ? open("/proc/self/environ", O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = 1;
    while (fd >= 0 && n > 0 && (size_t)(end - text) < ENVIRON_BYTES - 1) {
        n = read(fd, end, ENVIRON_BYTES - 1 - (size_t)(end - text));
        end += n > 0 ? n : 0;
    }
    if (fd >= 0)
        close(fd);
    for (const char *p = text; p < end; p += strlen(p) + 1)
        if (!strncmp(p, "JESPAN_CONF=", 12))
            return p + 12;
    return NULL;
}

static void print_conf(void)
{
    char number[NUMBER_BYTES];
    for (const struct conf_key *key = conf_keys; key->name; key++) {
        const char *text = field(key);
        if (key->type == CONF_BOOL)
            text = *(bool *)field(key) ? "true" : "false";
        else if (key->type == CONF_NUMBER)
            text = number_text(number, *(uint64_t *)field(key), 10);
        else if (key->type == CONF_CHOICE)
            text = choice_text(key, number, sizeof number);
        WARN(key->name, ":", text);
    }
}

/* A program may change its directory later. */
static void make_dump_dir_absolute(void)
{
    char path[2 * CONF_STRING_BYTES];
    if (!conf.dump_dir[0] || conf.dump_dir[0] == '/' || !getcwd(path, CONF_STRING_BYTES))
        return;
    strcat(path, "/");
    strcat(path, conf.dump_dir);
    if (strlen(path) < CONF_STRING_BYTES)
        strcpy(conf.dump_dir, path);
}

COLD void conf_boot(void)
{
    for (const struct conf_key *key = conf_keys; key->name; key++)
        set(key, key->default_text);
    if (&jespan_conf && jespan_conf)
        conf_parse(jespan_conf, "jespan_conf");
    if (!getauxval(AT_SECURE)) {
        const char *text = environ ? getenv("JESPAN_CONF") : early_environment();
        if (text)
            conf_parse(text, "JESPAN_CONF");
    } else {
        conf.dump_dir[0] = conf.reporters[0] = '\0'; /* under setuid nothing is written, whatever the program says */
    }
    make_dump_dir_absolute();
    if (conf.confirm_conf)
        print_conf();
}
