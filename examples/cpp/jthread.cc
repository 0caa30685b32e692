// SPDX-License-Identifier: BSD-2-Clause
// Spans and std::jthread: a span that moves into a thread, and threads that work in the context of their creator.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <jespan/jespan.hpp>
#include <jespan/mallctl.h>

JESPAN_SITE(job_site, "job");
JESPAN_SITE(import_site, "import");

static long figure(jespan_context_t context, const char *name)
{
    std::uint64_t value = 0;
    std::size_t bytes = sizeof value;
    std::string path = "spans." + std::to_string(context) + "." + name;
    return mallctl(path.c_str(), &value, &bytes, nullptr, 0) == 0 ? static_cast<long>(value) : -1;
}

// The span moves into the thread, is entered there until the thread is asked to stop, and is closed with the thread's function.
static std::jthread start_job(std::string_view tenant, std::atomic<jespan_context_t> &context, std::atomic<void *> &result)
{
    jespan::span span{job_site, {{"tenant", tenant}}};
    return std::jthread{[span = std::move(span), &context, &result](std::stop_token stop) {
        jespan::scope scope{span};
        result = std::malloc(2000);
        context = jespan_current();
        context.notify_all();
        std::atomic<bool> is_over{false};
        std::stop_callback wake{stop, [&] { is_over = true, is_over.notify_all(); }};
        is_over.wait(false);
    }};
}

// The threads attach their creator's context. It is in use meanwhile, as the creator has it entered until they have ended.
static jespan_context_t import(std::vector<void *> &results)
{
    jespan::span span{import_site};
    jespan::scope scope{span};
    std::vector<std::jthread> workers;
    workers.reserve(results.size());
    for (void *&result : results)
        workers.emplace_back([context = jespan_current(), &result] {
            jespan::attachment attachment{context};
            result = std::malloc(1000);
        });
    jespan_context_t context = jespan_current();
    for (std::jthread &worker : workers)
        worker.join();
    return context;
}

int main()
{
    std::atomic<jespan_context_t> job{JESPAN_CURRENT};
    std::atomic<void *> result{nullptr};
    std::vector<void *> results(4);
    long open_before, open_after;
    {
        std::jthread thread = start_job("acme", job, result);
        job.wait(JESPAN_CURRENT);
        open_before = figure(job, "open");
    }
    open_after = figure(job, "open");
    jespan_context_t imported = import(results);
    long job_objects = figure(job, "inuse_objects"), import_objects = 0;
    for (void *p : results)
        import_objects += p != nullptr;
    std::printf("job {tenant=acme}: %ld objects in use, open %ld, then %ld\n", job_objects, open_before, open_after);
    std::printf("import: %ld objects in use\n", figure(imported, "inuse_objects"));
    bool is_right = import_objects == 4 && result.load() != nullptr;
#ifndef JESPAN_DISABLE
    is_right = is_right && job_objects == 1 && open_before == 1 && open_after == 0 && figure(imported, "inuse_objects") >= 4;
#endif
    std::free(result);
    for (void *p : results)
        std::free(p);
    return is_right ? EXIT_SUCCESS : EXIT_FAILURE;
}
