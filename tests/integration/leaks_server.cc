// SPDX-License-Identifier: BSD-2-Clause
// A small server with a leak: each request for /note makes a note and forgets the one before. Its plugin, the first argument,
// keeps memory too.
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

#include <jespan/jespan.h>

struct note {
    char *text;
};

class sessions {
    std::map<std::string, note *> notes;

public:
    note *get(const std::string &user)
    {
        note *&found = notes[user];
        found = new note;              // the note
        found->text = new char[1000]; // the text of the note
        return found;
    }
};

void handle(sessions &all, const char *route, int i)
{
    JESPAN("request", "route", route);
    std::vector<int> scratch(100 + i % 10);
    if (std::strcmp(route, "/note") == 0)
        all.get("user " + std::to_string(i % 3))->text[0] = (char)scratch[0];
}

int main(int argc, char **argv)
{
    static sessions all;
    for (int i = 0; i < 1000; i++)
        handle(all, i % 4 != 0 ? "/look" : "/note", i);
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW) : nullptr;
    if (plugin) {
        JESPAN("plugin");
        reinterpret_cast<void (*)(void (*)())>(dlsym(plugin, "call_back"))([] {
            static void *kept[2];
            kept[kept[0] != nullptr] = ::operator new(5000); // the plugin's
        });
    }
    if (argc > 2) {
        JESPAN("waiting");
        std::string held(3000, ' ');
        std::printf("process %d\n", (int)getpid());
        std::fflush(stdout);
        std::getchar();
    }
}
