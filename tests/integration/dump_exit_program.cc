// SPDX-License-Identifier: BSD-2-Clause
// For dump.sh: static objects hold memory until their destructors run. Its argument says how it ends: "return", "exit",
// "thread" (another one calls exit()), "main_ends" (main() by pthread_exit(), later another thread calls exit()), "slow"
// (a destructor takes its time).
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <jespan/jespan.hpp>

extern "C" int mallctl(const char *name, void *old, std::size_t *old_bytes, void *value, std::size_t bytes);

static bool is_slow;
static pthread_t main_thread;

struct holder {
    void *memory;
    explicit holder(const char *name)
    {
        JESPAN("static", "name", name);
        memory = std::malloc(1 << 20);
    }
    ~holder()
    {
        if (is_slow)
            usleep(300000);
        std::free(memory);
    }
};

static holder early("early");

static void *end_later(void *arg)
{
    std::uint64_t dumps = 0;
    std::size_t bytes = sizeof dumps;
    if (std::strcmp(static_cast<const char *>(arg), "main_ends") == 0) {
        pthread_join(main_thread, nullptr);
        mallctl("spans.stats.dumps", &dumps, &bytes, nullptr, 0);
        std::printf("dumps when main had ended: %d\n", static_cast<int>(dumps));
    }
    std::exit(0);
}

int main(int, char **argv)
{
    static holder late("late");
    pthread_t other;
    char *how = argv[1];
    is_slow = std::strcmp(how, "slow") == 0;
    main_thread = pthread_self();
    std::printf("pid %d\n", static_cast<int>(getpid()));
    if (std::strcmp(how, "exit") == 0)
        std::exit(0);
    if (std::strcmp(how, "thread") != 0 && std::strcmp(how, "main_ends") != 0)
        return 0;
    pthread_create(&other, nullptr, end_later, how);
    if (std::strcmp(how, "main_ends") == 0)
        pthread_exit(nullptr);
    pthread_join(other, nullptr);
}
