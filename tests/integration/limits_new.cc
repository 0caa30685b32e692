// SPDX-License-Identifier: BSD-2-Clause
// Limits in C++: operator new throws or returns null, a container unwinds, and what it held makes room again.
#include <jespan/limit.h>

#include <new>
#include <string>
#include <vector>

#include "../support/check.h"
#include "../support/ctl.h"

static constexpr std::size_t kib = 1024;

/* A compiler that sees an object go unused may leave out the allocation. */
static void *volatile kept;

static bool throws(std::size_t bytes)
{
    try {
        char *p = new char[bytes];
        kept = p;
        delete[] p;
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

struct alignas(256) Aligned {
    char bytes[200 * kib];
};

static void check_inside(jespan_context_t context)
{
    CHECK(throws(200 * kib));
    CHECK(!throws(10 * kib));
    CHECK(!(kept = new (std::nothrow) char[200 * kib]));
    CHECK(!(kept = new (std::nothrow) Aligned));
    CHECK((kept = new (std::nothrow) char[10 * kib]));
    delete[] static_cast<char *>(kept);
    std::vector<std::string> strings;
    bool thrown = false;
    try {
        for (;;)
            strings.emplace_back(5000, 'x');
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    CHECK(thrown);
    CHECK(strings.size() > 10);
    CHECK(throws(50 * kib));
    strings = {};
    CHECK(!throws(50 * kib));
    CHECK(ctl_span(context, "limit_refusals") >= 5);
}

int main()
{
    jespan_context_t context;
    {
        JESPAN("tenant");
        context = jespan_current();
        CHECK_EQ(jespan_set_limit(JESPAN_CURRENT, 0, 100 * kib), 0);
        check_inside(context);
    }
    CHECK(!throws(200 * kib));
    CHECK_EQ(ctl_span(context, "limit_inuse_bytes"), 0);
    return check_failures != 0;
}
