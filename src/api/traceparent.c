/* SPDX-License-Identifier: BSD-2-Clause */
/* The traceparent header of the W3C's Trace Context (https://www.w3.org/TR/trace-context/#traceparent-header):
 *
 *     version-trace_id-parent_id-flags, in 2, 32, 16 and 2 lower-case hexadecimal digits
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/compiler.h"
#include "jespan/jespan.h"

enum { TRACE_ID = 3, PARENT_ID = 36, FLAGS = 53, END = 55 };
#define TRACE_ID_DIGITS 32
#define PARENT_ID_DIGITS 16

/* −1 for what is no lower-case hexadecimal digit. */
static int digit_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Looks at nothing behind the first character that is no digit, so at nothing behind the end. */
static bool is_hex(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (digit_value(s[i]) < 0)
            return false;
    return true;
}

static bool is_zero(const char *s, size_t n)
{
    return strspn(s, "0") >= n;
}

static bool is_laid_out(const char *s)
{
    return is_hex(s, 2) && s[TRACE_ID - 1] == '-' && is_hex(s + TRACE_ID, TRACE_ID_DIGITS) &&
           s[PARENT_ID - 1] == '-' && is_hex(s + PARENT_ID, PARENT_ID_DIGITS) && s[FLAGS - 1] == '-' &&
           is_hex(s + FLAGS, 2);
}

/* Later versions may have more fields. */
static bool has_end(const char *s, bool is_version_00)
{
    return s[END] == '\0' || (s[END] == '-' && !is_version_00);
}

EXPORT int jespan_parse_traceparent(const char *header, struct jespan_traceparent *out)
{
    if (!header || !out || !is_laid_out(header) || !strncmp(header, "ff", 2))
        return EINVAL;
    bool is_version_00 = is_zero(header, 2);
    if (!has_end(header, is_version_00) || is_zero(header + TRACE_ID, TRACE_ID_DIGITS) ||
        is_zero(header + PARENT_ID, PARENT_ID_DIGITS))
        return EINVAL;
    *out = (struct jespan_traceparent){0};
    memcpy(out->trace_id, header + TRACE_ID, TRACE_ID_DIGITS);
    memcpy(out->span_id, header + PARENT_ID, PARENT_ID_DIGITS);
    unsigned flags = (unsigned)(digit_value(header[FLAGS]) * 16 + digit_value(header[FLAGS + 1]));
    out->flags = (uint8_t)(is_version_00 ? flags : flags & JESPAN_TRACE_SAMPLED);
    return 0;
}
