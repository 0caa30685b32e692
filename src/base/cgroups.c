/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the memory cgroup of this process: /proc/self/cgroup names it, mountinfo says where cgroups are mounted. */
#include "base/cgroups.h"

#include <stdio.h>
#include <string.h>

/* Reads the path of this process's cgroup: "0::PATH" in version 2, "N:…,memory,…:PATH" in version 1. */
static bool find_path(const char *root, bool v2, char path[FILE_PATH_BYTES])
{
    const char *line = file_text(root, "/proc/self", "cgroup");
    for (; line && *line; line += strcspn(line, "\n"), line += *line != '\0') {
        const char *names = strchr(line, ':'), *at = names ? strchr(names + 1, ':') : NULL;
        if (!at)
            return false;
        size_t n = strcspn(at + 1, "\n");
        char list[256];
        snprintf(list, sizeof list, ",%.*s,", (int)(at - names - 1), names + 1);
        if ((v2 ? strcmp(list, ",,") == 0 : strstr(list, ",memory,") != NULL) && n < FILE_PATH_BYTES) {
            memcpy(path, at + 1, n);
            path[n] = '\0';
            return true;
        }
    }
    return false;
}

/* Copies a path of /proc/self/mountinfo, which writes blanks and backslashes as octal numbers. */
static void unescape(char *to, const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (from[i] == '\\' && i + 3 < bytes) {
            *to++ = (char)((from[i + 1] - '0') * 64 + (from[i + 2] - '0') * 8 + from[i + 3] - '0');
            i += 3;
        } else {
            *to++ = from[i];
        }
    *to = '\0';
}

/* Whether "memory" is among the options of the file system, which are the last field of a line. */
static bool has_memory_option(const char *type)
{
    char options[256];
    size_t n;
    const char *last = text_field(type, 3, &n);
    snprintf(options, sizeof options, ",%.*s,", (int)n, last);
    return strstr(options, ",memory,") != NULL;
}

/* Finds where cgroups are mounted, and which cgroup is at the top there. */
static bool find_mount(const char *root, bool v2, char top[FILE_PATH_BYTES], char point[FILE_PATH_BYTES])
{
    const char *line = file_text(root, "/proc/self", "mountinfo");
    for (; line && *line; line += strcspn(line, "\n"), line += *line != '\0') {
        const char *type = strstr(line, " - "), *end = strchrnul(line, '\n');
        size_t top_bytes, point_bytes;
        if (!type || type > end || strncmp(type + 3, v2 ? "cgroup2 " : "cgroup ", v2 ? 8 : 7) != 0 ||
            (!v2 && !has_memory_option(type + 3)))
            continue;
        const char *top_at = text_field(line, 4, &top_bytes), *point_at = text_field(line, 5, &point_bytes);
        if (top_bytes >= FILE_PATH_BYTES || point_bytes >= FILE_PATH_BYTES)
            return false;
        unescape(top, top_at, top_bytes);
        unescape(point, point_at, point_bytes);
        return true;
    }
    return false;
}

size_t cgroup_find(const char *root, bool v2, char directory[CGROUP_PATH_BYTES])
{
    char path[FILE_PATH_BYTES], top[FILE_PATH_BYTES], point[FILE_PATH_BYTES];
    if (!find_path(root, v2, path) || !find_mount(root, v2, top, point))
        return 0;
    size_t n = strcmp(top, "/") ? strlen(top) : 0, point_bytes = strlen(point);
    bool is_below = !strncmp(path, top, n) && (path[n] == '/' || !path[n]) && !strstr(path, "/..");
    if (point_bytes + strlen(path) >= FILE_PATH_BYTES)
        return 0;
    snprintf(directory, CGROUP_PATH_BYTES, "%s%s", point, is_below && strcmp(path, "/") ? path + n : "");
    return point_bytes;
}
