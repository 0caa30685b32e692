/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of C++ functions that fit a line. Text that is left out becomes "...". */
#include "short_name.h"

#include <stdbool.h>
#include <string.h>

static const char string_template[] = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
static const char old_string_template[] = "std::basic_string<char, std::char_traits<char>, std::allocator<char> >";
static const char string_name[] = "std::string";

/* The replacement is not longer than what it replaces. */
static void replace(char *at, size_t n, const char *by)
{
    size_t bytes = strlen(by);
    memcpy(at, by, bytes);
    memmove(at + bytes, at + n, strlen(at + n) + 1);
}

static void replace_all(char *name, const char *what, const char *by)
{
    for (char *at = name; (at = strstr(at, what)); at += strlen(by))
        replace(at, strlen(what), by);
}

/* Whether < and > at this place are part of an operator's name: operator<<, operator->. */
static bool is_operator(const char *name, const char *at)
{
    while (at > name && strchr("<>=-", at[-1]))
        at--;
    return at - name >= 8 && memcmp(at - 8, "operator", 8) == 0;
}

/* The end of the brackets that open here, or NULL. */
static char *find_end(const char *name, char *open)
{
    char closing = *open == '<' ? '>' : ')';
    int depth = 0;
    for (char *at = open; *at != '\0'; at++) {
        bool is_part = !is_operator(name, at);
        if (*at == *open && is_part)
            depth++;
        else if (*at == closing && is_part && --depth == 0)
            return at;
    }
    return NULL;
}

static void drop_allocators(char *name)
{
    static const char allocator[] = ", std::allocator<";
    for (char *at = name; (at = strstr(at, allocator));) {
        char *end = find_end(name, at + sizeof allocator - 2);
        if (!end)
            return;
        end += end[1] == ' ' && end[2] == '>' ? 2 : 1; /* "> >" */
        replace(at, (size_t)(end - at), "");
    }
}

/* The parameters are the last brackets that are not in others; "const" and "[clone …]" may follow. */
static void drop_parameters(char *name)
{
    char *open = NULL, *end = NULL;
    for (char *at = name; *at != '\0'; at++)
        if ((*at == '(' || *at == '<') && !is_operator(name, at)) {
            char *closing = find_end(name, at);
            if (!closing)
                break;
            if (*at == '(') {
                open = at;
                end = closing;
            }
            at = closing;
        }
    if (open && end - open > 4 && strncmp(open, "(anonymous", 10) != 0)
        replace(open, (size_t)(end + 1 - open), "(...)");
}

static void drop_arguments(char *name)
{
    for (char *at = name; *at != '\0'; at++)
        if (*at == '<' && !is_operator(name, at)) {
            char *end = find_end(name, at);
            if (!end)
                return;
            if (end - at > 4)
                replace(at, (size_t)(end + 1 - at), "<...>");
            at = strchr(at, '>');
        }
}

void short_name(char *name, size_t wanted)
{
    replace_all(name, string_template, string_name);
    replace_all(name, old_string_template, string_name);
    replace_all(name, "std::string >", "std::string>");
    drop_allocators(name);
    if (strlen(name) > wanted)
        drop_parameters(name);
    if (strlen(name) > wanted)
        drop_arguments(name);
}
