// SPDX-License-Identifier: BSD-2-Clause
// A span for each C++20 coroutine: it is entered while the coroutine runs, on whatever thread, and not while it waits.
//
// The recipe is the promise: it has the span, its await_transform() wraps whatever the coroutine waits for, and initial_suspend() and
// final_suspend() enter and exit for the first and the last time. A JESPAN() block must not
// contain a co_await; a block between two is fine.
#include <condition_variable>
#include <coroutine>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <jespan/jespan.hpp>
#include <jespan/mallctl.h>

// ---- The recipe ----

// Exits the span before the coroutine waits, and enters it after. From the awaiter's await_suspend() on, another thread may
// resume the coroutine, so nothing of it is touched there.
template <class Awaiter> struct outside_span {
    Awaiter awaiter;
    jespan_span_t *span;
    bool has_left = false;

    bool await_ready() { return awaiter.await_ready(); }
    template <class Promise> auto await_suspend(std::coroutine_handle<Promise> coroutine)
    {
        has_left = true;
        jespan_exit(span);
        return awaiter.await_suspend(coroutine);
    }
    decltype(auto) await_resume()
    {
        if (has_left)
            jespan_enter(span);
        return awaiter.await_resume();
    }
};

// A coroutine whose first parameter is its span. It begins when it is first resumed, and destroys itself at its end.
struct task {
    struct promise_type {
        jespan::span &span;
        std::coroutine_handle<> self = std::coroutine_handle<promise_type>::from_promise(*this);

        template <class... Others> explicit promise_type(jespan::span &first, Others &...) : span{first} {}
        task get_return_object() { return {self}; }
        auto initial_suspend() noexcept { return outside_span<std::suspend_always>{{}, span.get(), false}; }
        std::suspend_never final_suspend() noexcept
        {
            jespan_exit(span.get());
            return {};
        }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
        template <class Awaiter> outside_span<Awaiter> await_transform(Awaiter awaiter)
        {
            return {std::move(awaiter), span.get(), false};
        }
    };
    std::coroutine_handle<> coroutine;
};

// ---- A program: requests that wait for each other on two threads ----

class loop {
public:
    void post(std::coroutine_handle<> coroutine)
    {
        std::lock_guard lock{mutex_};
        ready_.push_back(coroutine);
        changed_.notify_one();
    }
    void end_one()
    {
        std::lock_guard lock{mutex_};
        running_--;
        changed_.notify_all();
    }
    void run(unsigned n_requests)
    {
        running_ = n_requests;
        std::thread other{[this] { work(); }};
        work();
        other.join();
    }

private:
    void work()
    {
        std::unique_lock lock{mutex_};
        for (;;) {
            changed_.wait(lock, [this] { return !ready_.empty() || running_ == 0; });
            if (ready_.empty())
                return;
            std::coroutine_handle<> next = ready_.front();
            ready_.pop_front();
            lock.unlock();
            next.resume();
            lock.lock();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::coroutine_handle<>> ready_;
    unsigned running_ = 0;
};

// Lets all others run first.
struct turn {
    loop &its;
    bool await_ready() { return false; }
    void await_suspend(std::coroutine_handle<> coroutine) { its.post(coroutine); }
    void await_resume() {}
};

JESPAN_SITE(request_site, "request");

static task handle([[maybe_unused]] jespan::span span, loop &its, std::vector<void *> &kept)
{
    for (void *&p : kept) {
        p = std::malloc(1000);
        {
            JESPAN("render"); // no co_await in here
            std::free(std::malloc(300));
        }
        co_await turn{its};
    }
    its.end_one();
}

// What the requests of that number have in use and have allocated in "render", by jespan; -1 without it.
static long figure(jespan_context_t context, const char *name)
{
    std::uint64_t value = 0;
    std::size_t bytes = sizeof value;
    std::string path = "spans." + std::to_string(context) + "." + name;
    return mallctl(path.c_str(), &value, &bytes, nullptr, 0) == 0 ? static_cast<long>(value) : -1;
}

int main()
{
    constexpr unsigned n_requests = 10, n_turns = 20;
    std::vector<void *> kept[n_requests];
    jespan_context_t contexts[n_requests];
    loop its;

    for (unsigned i = 0; i < n_requests; i++) {
        kept[i].resize(n_turns);
        jespan::span span{request_site, {{"number", i}}};
        {
            jespan::scope scope{span};
            contexts[i] = jespan_current();
        }
        its.post(handle(std::move(span), its, kept[i]).coroutine);
    }
    jespan_context_t before = jespan_current();
    its.run(n_requests);

    bool is_right = jespan_current() == before;
    for (unsigned i = 0; i < n_requests; i++) {
        long objects = figure(contexts[i], "inuse_objects"), enters = figure(contexts[i], "enters"), open = figure(contexts[i], "open");
        std::printf("request {number=%u}: %ld objects in use, entered %ld times, %ld open\n", i, objects, enters, open);
#ifndef JESPAN_DISABLE
        is_right = is_right && objects == n_turns && enters == n_turns + 2 && open == 0;
#endif
        for (void *p : kept[i])
            std::free(p);
    }
    return is_right ? EXIT_SUCCESS : EXIT_FAILURE;
}
