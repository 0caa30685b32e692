/* SPDX-License-Identifier: BSD-2-Clause */
/* The names of mallctl that another process may use, and their values.
 *
 * The thread that calls mallctl is any thread of the program, at any place where it allocates or frees. So names of the
 * calling thread are left out, and names that take or return addresses, load modules, write files or need much stack.
 *
 * To add a name, add a row. The first row that fits counts. A number's size is found by reading it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mailbox.h"
#include "base/parse.h"
#include "malloc/family.h"
#include "policy/limits.h"
#include "report/limit_events.h"

enum { READ = 1, WRITE = 2, CALL = 4 };

struct outside_name {
    const char *pattern;
    unsigned access;
    enum mailbox_kind kind; /* MAILBOX_UNSIGNED also for MAILBOX_BOOL: its size tells */
};

static const struct outside_name outside_names[] = {
    {"spans.stacks", READ | WRITE, MAILBOX_WORDS},
    {"spans.stacks_min_bytes", READ | WRITE, MAILBOX_UNSIGNED},
    {"spans.version", READ, MAILBOX_WORDS},
    {"spans.epoch", READ | WRITE, MAILBOX_UNSIGNED},
    {"spans.count", READ, MAILBOX_UNSIGNED},
    {"spans.stats.pyroscope.last_error", READ, MAILBOX_WORDS},
    {"spans.stats.*", READ, MAILBOX_UNSIGNED},
    {"spans.arenas.*.name", READ, MAILBOX_WORDS},
    {"spans.arenas.*.value", 0, MAILBOX_NOTHING}, /* arrays */
    {"spans.arenas.*.limit_bytes", READ | WRITE, MAILBOX_UNSIGNED},
    {"spans.alerts.*.rule", READ, MAILBOX_WORDS},
    {"spans.*.labels", 0, MAILBOX_NOTHING},
    {"spans.*.ages", 0, MAILBOX_NOTHING},
    {"spans.*.name", READ, MAILBOX_WORDS},
    {"spans.*.target", READ, MAILBOX_WORDS},
    {"spans.*.file", READ, MAILBOX_WORDS},
    {"spans.*.kind", READ, MAILBOX_WORDS},
    {"spans.*.limit_soft", READ | WRITE, MAILBOX_UNSIGNED},
    {"spans.*.limit_hard", READ | WRITE, MAILBOX_UNSIGNED},
    {"spans.*.*", READ, MAILBOX_UNSIGNED},
    {"version", READ, MAILBOX_WORDS},
    {"epoch", READ | WRITE, MAILBOX_UNSIGNED},
    {"background_thread", READ | WRITE, MAILBOX_UNSIGNED},
    {"max_background_threads", READ | WRITE, MAILBOX_UNSIGNED},
    {"config.malloc_conf", READ, MAILBOX_WORDS},
    {"config.*", READ, MAILBOX_UNSIGNED},
    {"opt.metadata_thp", READ, MAILBOX_WORDS},
    {"opt.dss", READ, MAILBOX_WORDS},
    {"opt.percpu_arena", READ, MAILBOX_WORDS},
    {"opt.stats_*_opts", READ, MAILBOX_WORDS},
    {"opt.junk", READ, MAILBOX_WORDS},
    {"opt.thp", READ, MAILBOX_WORDS},
    {"opt.zero_realloc", READ, MAILBOX_WORDS},
    {"opt.prof_prefix", READ, MAILBOX_WORDS},
    {"opt.stats_interval", READ, MAILBOX_SIGNED},
    {"opt.mutex_max_spin", READ, MAILBOX_SIGNED},
    {"opt.lg_prof_interval", READ, MAILBOX_SIGNED},
    {"opt.*_decay_ms", READ, MAILBOX_SIGNED},
    {"opt.*", READ, MAILBOX_UNSIGNED},
    {"arena.*.purge", CALL, MAILBOX_NOTHING},
    {"arena.*.decay", CALL, MAILBOX_NOTHING},
    {"arena.*.dirty_decay_ms", READ | WRITE, MAILBOX_SIGNED},
    {"arena.*.muzzy_decay_ms", READ | WRITE, MAILBOX_SIGNED},
    {"arena.*.retain_grow_limit", READ | WRITE, MAILBOX_UNSIGNED},
    {"arena.*.initialized", READ, MAILBOX_UNSIGNED},
    {"arena.*.dss", READ, MAILBOX_WORDS},
    {"arenas.dirty_decay_ms", READ | WRITE, MAILBOX_SIGNED},
    {"arenas.muzzy_decay_ms", READ | WRITE, MAILBOX_SIGNED},
    {"arenas.n*", READ, MAILBOX_UNSIGNED},
    {"arenas.quantum", READ, MAILBOX_UNSIGNED},
    {"arenas.page", READ, MAILBOX_UNSIGNED},
    {"arenas.tcache_max", READ, MAILBOX_UNSIGNED},
    {"arenas.bin.*", READ, MAILBOX_UNSIGNED},
    {"arenas.lextent.*", READ, MAILBOX_UNSIGNED},
    {"prof.active", READ | WRITE, MAILBOX_UNSIGNED},
    {"prof.gdump", READ | WRITE, MAILBOX_UNSIGNED},
    {"prof.thread_active_init", READ | WRITE, MAILBOX_UNSIGNED},
    {"prof.lg_sample", READ, MAILBOX_UNSIGNED},
    {"prof.interval", READ, MAILBOX_UNSIGNED},
    {"stats.mutexes.reset", CALL, MAILBOX_NOTHING},
    {"stats.arenas.*.dss", READ, MAILBOX_WORDS},
    {"stats.arenas.*_decay_ms", READ, MAILBOX_SIGNED},
    {"stats.*", READ, MAILBOX_UNSIGNED},
};

static const struct outside_name *find(const char *name)
{
    for (size_t i = 0; i < sizeof outside_names / sizeof outside_names[0]; i++)
        if (pattern_fits(outside_names[i].pattern, name))
            return &outside_names[i];
    return NULL;
}

/* Numbers have 8, 4 or 1 bytes. mallctl says how many it has written where we ask for too many. */
static int read_number(const char *name, uint64_t *value, size_t *bytes)
{
    *value = 0;
    *bytes = sizeof *value;
    int error = FAMILY(mallctl)(name, value, bytes, NULL, 0);
    if (error != EINVAL || (*bytes != sizeof(uint32_t) && *bytes != sizeof(bool)))
        return error;
    *value = 0;
    return FAMILY(mallctl)(name, value, bytes, NULL, 0);
}

static int get_number(const struct outside_name *row, const char *name, struct mailbox_answer *answer)
{
    size_t bytes;
    int error = read_number(name, &answer->value, &bytes);
    answer->kind = bytes == sizeof(bool) ? MAILBOX_BOOL : row->kind;
    return error;
}

static int get_words(const char *name, struct mailbox_answer *answer)
{
    const char *words = NULL;
    size_t bytes = sizeof words;
    int error = FAMILY(mallctl)(name, &words, &bytes, NULL, 0);
    answer->kind = MAILBOX_WORDS;
    if (!error && words)
        memcpy(answer->words, words, strnlen(words, sizeof answer->words - 1));
    return error;
}

/* The number of the context may have been given to another one since the request was made. */
static int set_limit(const struct mailbox_request *request)
{
    char *rest = NULL;
    unsigned long id = strncmp(request->name, "spans.", 6) == 0 ? strtoul(request->name + 6, &rest, 10) : 0;
    const uint64_t *soft = id && strcmp(rest, ".limit_soft") == 0 ? &request->value : NULL;
    const uint64_t *hard = id && strcmp(rest, ".limit_hard") == 0 ? &request->value : NULL;
    if (!soft && !hard)
        return EPERM;
    if (!request->has_value)
        return EINVAL;
    int error = id <= UINT32_MAX ? limits_set_of_life((uint32_t)id, request->life, soft, hard) : -ENOENT;
    if (!error)
        limit_events_start();
    return -error;
}

static int set_number(const struct mailbox_request *request)
{
    uint64_t value;
    size_t bytes;
    int error = read_number(request->name, &value, &bytes);
    if (error)
        return error;
    if (!request->has_value || (bytes == sizeof(bool) && request->value > 1))
        return EINVAL;
    value = request->value;
    if (bytes == sizeof(uint32_t) && value > UINT32_MAX)
        return EINVAL;
    return FAMILY(mallctl)(request->name, NULL, NULL, &value, bytes);
}

static int set(const struct outside_name *row, const struct mailbox_request *request)
{
    const char *words = request->words;
    if (request->life)
        return set_limit(request);
    if (row->kind == MAILBOX_WORDS)
        return FAMILY(mallctl)(request->name, NULL, NULL, &words, sizeof words);
    return set_number(request);
}

static int execute(const struct mailbox_request *request, struct mailbox_answer *answer)
{
    static const unsigned needed[] = {[MAILBOX_GET] = READ, [MAILBOX_SET] = WRITE, [MAILBOX_CALL] = CALL};
    const struct outside_name *row = find(request->name);
    if (!row || request->verb < MAILBOX_GET || request->verb > MAILBOX_CALL || !(row->access & needed[request->verb]))
        return EPERM;
    if (request->verb == MAILBOX_CALL)
        return FAMILY(mallctl)(request->name, NULL, NULL, NULL, 0);
    if (request->verb == MAILBOX_SET)
        return set(row, request);
    return row->kind == MAILBOX_WORDS ? get_words(request->name, answer) : get_number(row, request->name, answer);
}

COLD void mailbox_execute(const struct mailbox_request *request, struct mailbox_answer *answer)
{
    memset(answer, 0, sizeof *answer);
    answer->error = execute(request, answer);
    answer->token = request->token;
}
