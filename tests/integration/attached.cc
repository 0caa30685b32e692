// SPDX-License-Identifier: BSD-2-Clause
// jespan::attachment: what is attached ends with its block, also by an exception.
#include <stdexcept>

#include <jespan/jespan.hpp>

#include "../support/ctl.h"

JESPAN_SITE(site, "submitter");

static void run_job(jespan_context_t context, jespan_context_t expected)
{
    jespan::attachment attachment{context};
    CHECK_EQ(jespan_current(), expected);
    CHECK_EQ(static_cast<bool>(attachment), context == expected);
    JESPAN("job");
    throw std::runtime_error{"in a job"};
}

static void run_and_catch(jespan_context_t context, jespan_context_t expected)
{
    bool caught = false;
    try {
        run_job(context, expected);
    } catch (const std::runtime_error &) {
        caught = true;
    }
    CHECK(caught);
}

int main()
{
    jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, nullptr, 0);
    jespan_context_t base = jespan_current();
    jespan_enter(span);
    jespan_context_t id = jespan_current();
    jespan_exit(span);
    run_and_catch(id, id);
    CHECK_EQ(jespan_current(), base);
    {
        JESPAN("worker");
        jespan_context_t worker = jespan_current();
        run_and_catch(id, id);
        CHECK_EQ(jespan_current(), worker);
        errno = 7;
        run_and_catch(id + 1000000, worker); // no such context: it stays where it is
        CHECK_EQ(errno, 7);
        CHECK_EQ(jespan_current(), worker);
    }
    CHECK_EQ(jespan_current(), base);
    jespan_close(span);
    return check_result();
}
