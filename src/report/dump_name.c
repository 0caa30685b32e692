/* SPDX-License-Identifier: BSD-2-Clause */
/* The names of numbered dumps. */
#include "report/dump_name.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define SUFFIX ".pb.gz"
#define STAMP_DIGITS 8

const char *const dump_profile_names[EXPORTER_N_PROFILES] = {[EXPORTER_HEAP] = "heap", [EXPORTER_TIME] = "time"};

int dump_name_make(char *text, size_t bytes, const struct dump_name *name)
{
    char life[24] = "";
    bool has_reason = name->reason < DUMP_N_REASONS;
    if (name->life)
        snprintf(life, sizeof life, ".%llu", (unsigned long long)name->life);
    return snprintf(text, bytes, "%s.%llu%s.%llu%s%s" SUFFIX, dump_profile_names[name->profile],
                    (unsigned long long)name->pid, life, (unsigned long long)name->number, has_reason ? "." : "",
                    has_reason ? dump_reason_names[name->reason] : "");
}

bool dump_name_is_same_dump(const struct dump_name *a, const struct dump_name *b)
{
    return a->pid == b->pid && a->life == b->life && a->number == b->number && a->reason == b->reason;
}

/* ---- Reading ---- */

/* Each takes something from the front of the text. */

static bool take(const char **text, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(*text, word, n) != 0)
        return false;
    *text += n;
    return true;
}

/* A dot and a number as dump_name_make() writes them. */
static bool take_number(const char **text, uint64_t *number)
{
    const char *p = *text;
    if (p[0] != '.' || p[1] < '1' || p[1] > '9')
        return false;
    *number = 0;
    for (p++; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(*number, 10u, number) || __builtin_add_overflow(*number, (unsigned)(*p - '0'), number))
            return false;
    *text = p;
    return true;
}

static bool take_profile(const char **text, enum exporter_profile *profile)
{
    for (*profile = 0; *profile < EXPORTER_N_PROFILES; ++*profile)
        if (take(text, dump_profile_names[*profile]))
            return true;
    return false;
}

static enum dump_reason take_reason(const char **text)
{
    enum dump_reason reason = 0;
    const char *p = *text;
    if (!take(&p, "."))
        return DUMP_N_REASONS;
    while (reason < DUMP_N_REASONS && !take(&p, dump_reason_names[reason]))
        reason++;
    if (reason < DUMP_N_REASONS)
        *text = p;
    return reason;
}

static bool is_temporary_rest(const char *text)
{
    uint64_t pid;
    if (!take_number(&text, &pid) || !take(&text, "."))
        return false;
    for (int i = 0; i < STAMP_DIGITS; i++)
        if (!isxdigit((unsigned char)*text++))
            return false;
    return strcmp(text, ".tmp") == 0;
}

bool dump_name_parse(struct dump_name *name, const char *text)
{
    *name = (struct dump_name){0};
    if (!take_profile(&text, &name->profile) || !take_number(&text, &name->pid) || !take_number(&text, &name->life))
        return false;
    if (!take_number(&text, &name->number)) {
        name->number = name->life;
        name->life = 0;
    }
    name->reason = take_reason(&text);
    if (!take(&text, SUFFIX))
        return false;
    name->is_temporary = *text != '\0';
    return !name->is_temporary || is_temporary_rest(text);
}
