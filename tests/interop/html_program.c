/* SPDX-License-Identifier: BSD-2-Clause */
/* For html.sh: two heap dumps in the current directory. It expects another one at its end, with a dump of times. The span `request`
 * itself never allocates. Sizes are size classes. */
#include <stdlib.h>

#include <jespan/jespan.h>
#include <jespan/mallctl.h>

static void *held[8];

static void part(const char *key, size_t bytes, int slot)
{
    JESPAN("part", "key", key);
    free(held[slot]);
    held[slot] = malloc(bytes);
}

static void request(const char *route, size_t bytes, int slot)
{
    JESPAN("request", "route", route);
    part("a", bytes, slot);
    part("</template><script>alert(1)</script>", bytes / 2, slot + 1);
    JESPAN("no labels");
    free(malloc(100));
}

static int dump(const char *path)
{
    return mallctl("spans.dump", NULL, NULL, &path, sizeof path);
}

int main(void)
{
    int error = 0;
    request("/one", 1 << 20, 0);
    error |= dump("heap.9.pb.gz");
    request("/one", 4 << 20, 0);
    error |= dump("heap.10.pb.gz");
    request("/one", 2 << 20, 0);
    request("/two", 8 << 20, 2);
    return error != 0;
}
