/* SPDX-License-Identifier: BSD-2-Clause */
/* Strings of a profile, which have no NUL at the end, compared with texts. */
#ifndef JESPAN_PROFILE_STRING_IS_H
#define JESPAN_PROFILE_STRING_IS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

static inline bool string_is(ProtobufCBinaryData string, const char *text)
{
    return string.len == strlen(text) && memcmp(string.data, text, string.len) == 0;
}

static inline bool string_begins_with(ProtobufCBinaryData string, const char *text)
{
    size_t n = strlen(text);
    return string.len >= n && memcmp(string.data, text, n) == 0;
}

static inline bool string_ends_with(ProtobufCBinaryData string, const char *text)
{
    size_t n = strlen(text);
    return string.len >= n && memcmp(string.data + string.len - n, text, n) == 0;
}

#endif
