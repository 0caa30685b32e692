/* SPDX-License-Identifier: BSD-2-Clause */
#include "allocators.h"

#include <stddef.h>
#include <string.h>

#include "console/command.h"

static const char *const known[] = {
#define ALLOCATORS(names) names,
#include "base/allocators.def"
#undef ALLOCATORS
};

#define OWN_MOST 64u
static const char *own[OWN_MOST];
static size_t n_own;

static bool fits(ProtobufCBinaryData name, const char *word, size_t n, bool is_beginning)
{
    if (name.len < n || (name.len > n && !is_beginning))
        return false;
    return n == 0 || memcmp(name.data, word, n) == 0;
}

static bool is_in_list(ProtobufCBinaryData name, const char *list)
{
    for (size_t n; *list; list += n + (list[n] == '|')) {
        n = strcspn(list, "|");
        bool is_beginning = list[n - 1] == '*'; /* .* */
        if (fits(name, list, is_beginning ? n - 2 : n, is_beginning))
            return true;
    }
    return false;
}

static bool is_own(ProtobufCBinaryData name, const char *word)
{
    size_t n = strlen(word);
    bool is_beginning = word[n - 1] == '*';
    return fits(name, word, n - is_beginning, is_beginning);
}

bool allocators_have(ProtobufCBinaryData name)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (is_in_list(name, known[i]))
            return true;
    for (size_t i = 0; i < n_own; i++)
        if (is_own(name, own[i]))
            return true;
    return false;
}

int allocators_read(void *unused, const char *word)
{
    (void)unused;
    if (word[0] != '\0' && n_own < OWN_MOST) {
        own[n_own++] = word;
        return 0;
    }
    cmd_error(word[0] ? "--allocator: there are more than %u" : "--allocator: there is no name", OWN_MOST);
    return STATUS_USAGE;
}
