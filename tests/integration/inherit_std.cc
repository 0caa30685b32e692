// SPDX-License-Identifier: BSD-2-Clause
// inherit with the threads of C++: std::thread, std::async, and one that is detached.
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <jespan/jespan.h>

extern "C" const char *jespan_conf;
const char *jespan_conf = "inherit:true";

static int failures;

static void expect(const char *what, jespan_context_t is, jespan_context_t should_be)
{
    if (is == should_be)
        return;
    std::fprintf(stderr, "%s: the context is %u, not %u\n", what, is, should_be);
    failures++;
}

static void in_span(void)
{
    JESPAN("creator");
    jespan_context_t here = jespan_current();
    std::vector<jespan_context_t> there(20);
    std::vector<std::thread> threads;
    for (auto &t : there)
        threads.emplace_back([&t] { t = jespan_current(); });
    for (auto &t : threads)
        t.join();
    for (auto t : there)
        expect("std::thread", t, here);
    expect("std::async", std::async(std::launch::async, jespan_current).get(), here);
    auto promise = std::make_shared<std::promise<jespan_context_t>>();
    auto future = promise->get_future();
    std::thread([promise] { promise->set_value(jespan_current()); }).detach();
    expect("detached", future.get(), here);
    expect("the creator", jespan_current(), here);
}

int main()
{
    jespan_context_t outside = jespan_current(), there = 0;
    in_span();
    expect("after the span", jespan_current(), outside);
    std::thread([&there] { there = jespan_current(); }).join();
    expect("a thread outside any span", there, outside); // of the same name
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
