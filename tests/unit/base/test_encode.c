/* SPDX-License-Identifier: BSD-2-Clause */
/* Base64 with the vectors of RFC 4648, and escapes of JSON. */
#include "base/encode.h"

#include <string.h>

#include "../../support/check.h"

static void check_base64(const char *from, const char *expected)
{
    char to[16] = "";
    CHECK_EQ(base64_bytes(strlen(from)), strlen(expected));
    base64_encode(to, from, strlen(from));
    CHECK(strcmp(to, expected) == 0);
}

static void check_escape(unsigned char c, const char *expected)
{
    char buffer[JSON_ESCAPE_BYTES];
    const char *escaped = json_escape(c, buffer);
    CHECK(expected ? escaped && strcmp(escaped, expected) == 0 : !escaped);
}

int main(void)
{
    check_base64("", "");
    check_base64("f", "Zg==");
    check_base64("fo", "Zm8=");
    check_base64("foo", "Zm9v");
    check_base64("foob", "Zm9vYg==");
    check_base64("fooba", "Zm9vYmE=");
    check_base64("foobar", "Zm9vYmFy");
    check_base64("\xfb\xff\xbf", "+/+/");
    check_escape('"', "\\\"");
    check_escape('\\', "\\\\");
    check_escape('\n', "\\u000a");
    check_escape(0x1f, "\\u001f");
    check_escape(0x7f, "\\u007f");
    check_escape(' ', NULL);
    check_escape('/', NULL);
    check_escape('~', NULL);
    return check_result();
}
