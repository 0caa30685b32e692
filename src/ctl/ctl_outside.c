/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests of another process: mallctl is called, if the name is permitted (snapshot/names_permitted.c). A number's size is
 * found by reading it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mailbox.h"
#include "malloc/family.h"
#include "policy/limits.h"
#include "report/limit_events.h"
#include "snapshot/names_permitted.h"

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

static int get_number(const struct permitted_name *row, const char *name, struct mailbox_answer *answer)
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

static int set(const struct permitted_name *row, const struct mailbox_request *request)
{
    const char *words = request->words;
    if (request->life)
        return set_limit(request);
    if (row->kind == MAILBOX_WORDS)
        return FAMILY(mallctl)(request->name, NULL, NULL, &words, sizeof words);
    return set_number(request);
}

static void refresh(void)
{
    uint64_t any = 1;
    FAMILY(mallctl)("epoch", NULL, NULL, &any, sizeof any);
}

static int execute(const struct mailbox_request *request, struct mailbox_answer *answer)
{
    const struct permitted_name *row = names_permitted_find(request->name, request->verb);
    if (!row)
        return EPERM;
    if (request->verb == MAILBOX_CALL)
        return FAMILY(mallctl)(request->name, NULL, NULL, NULL, 0);
    if (request->verb == MAILBOX_SET)
        return set(row, request);
    if (request->has_value)
        refresh();
    return row->kind == MAILBOX_WORDS ? get_words(request->name, answer) : get_number(row, request->name, answer);
}

COLD void mailbox_execute(const struct mailbox_request *request, struct mailbox_answer *answer)
{
    memset(answer, 0, sizeof *answer);
    answer->error = execute(request, answer);
    answer->token = request->token;
}
