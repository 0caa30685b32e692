/* SPDX-License-Identifier: BSD-2-Clause */
/* Modules as shared objects. They are opened with RTLD_LOCAL, so the program's symbol search does not see their
 * libraries. */
#include <config.h>

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/die.h"
#include "conf/conf.h"
#include "report/module.h"

#define LOADED_MAX 16

/* ---- Finding a module ---- */

/* The modules of an installed library are in jespan/ beside it. In a build tree, the library is in
 * .libs/, and the modules are in exporters/.libs/. The dynamic linker's name of this library is relative if
 * LD_LIBRARY_PATH is. */
static bool find_beside(char *path, size_t bytes, const char *name)
{
    static const char build[] = ".libs";
    Dl_info self;
    char real[PATH_MAX];
    const char *file = dladdr((void *)(uintptr_t)find_beside, &self) ? self.dli_fname : NULL;
    if (file && realpath(file, real)) /* the name may be a symbolic link */
        file = real;
    const char *slash = file ? strrchr(file, '/') : NULL;
    if (!slash)
        return false;
    size_t n = (size_t)(slash - file), suffix = sizeof build - 1;
    bool is_build = n >= suffix && !strncmp(slash - suffix, build, suffix) && (n == suffix || slash[-(ptrdiff_t)suffix - 1] == '/');
    int length = snprintf(path, bytes, "%.*s%s/%s.so", (int)n, file, is_build ? "/../exporters/.libs" : "/jespan", name);
    return length > 0 && (size_t)length < bytes && access(path, R_OK) == 0;
}

/* A directory that was chosen may have some modules only. Where there is none, the path is that in `module_dir`. */
static void find_module(char *path, size_t bytes, const char *name)
{
    bool is_chosen = strcmp(conf.module_dir, JESPAN_MODULE_DIR);
    snprintf(path, bytes, "%s/%s.so", conf.module_dir, name);
    if (is_chosen && (access(path, F_OK) == 0 || access(conf.module_dir, X_OK) != 0))
        return;
    if (find_beside(path, bytes, name))
        return;
    snprintf(path, bytes, "%s/%s.so", JESPAN_MODULE_DIR, name);
    if (is_chosen && access(path, R_OK) != 0)
        snprintf(path, bytes, "%s/%s.so", conf.module_dir, name);
}

/* ---- Opening it ---- */

/* Whether this build was configured without that module. */
static bool is_left_out(const char *name)
{
    static const char *const left_out[] = {
#ifndef JESPAN_WITH_PPROF
        "pprof",
#endif
#ifndef JESPAN_WITH_PYROSCOPE
        "otlp",
        "pyroscope",
#endif
#ifndef JESPAN_WITH_HTTP
        "http",
#endif
        NULL};
    const char *const *p = left_out;
    while (*p && strcmp(*p, name))
        p++;
    return *p;
}

/* Returns the symbol jespan_KIND_NAME of the module. */
static const void *open_module(const char *kind, const char *name)
{
    char path[CONF_STRING_BYTES + 64], symbol[64];
    find_module(path, sizeof path, name);
    snprintf(symbol, sizeof symbol, "jespan_%s_%s", kind, name);
    struct stdio_holes holes;
    stdio_holes_fill(&holes);
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    stdio_holes_empty(&holes);
    const void *found = module ? dlsym(module, symbol) : NULL;
    if (!found) {
        const char *error = dlerror();
        bool left_out = strcmp(kind, "reporter") && is_left_out(name);
        WARN(kind, " ", name, ": ", error ? error : "unknown error",
             left_out                        ? "; this build of jespan was configured without it"
             : strcmp(kind, "exporter") == 0 ? "; see dump_format and module_dir"
                                             : "; see module_dir");
    }
    return found;
}

static const struct exporter *open_exporter(const char *name)
{
    const struct exporter *exporter = open_module("exporter", name);
    if (exporter && exporter->abi != EXPORTER_ABI) {
        WARN("exporter ", name, ": its module is of another version of jespan; see module_dir");
        return NULL;
    }
    return exporter;
}

const struct exporter *module_find(const char *name)
{
    static struct {
        const char *name;
        const struct exporter *exporter;
    } loaded[LOADED_MAX]; /* under the mutex of dump.c */
    static int n;
    for (int i = 0; i < n; i++)
        if (!strcmp(loaded[i].name, name))
            return loaded[i].exporter;
    const struct exporter *exporter = open_exporter(name);
    if (n < LOADED_MAX) {
        loaded[n].name = name;
        loaded[n++].exporter = exporter;
    }
    return exporter;
}

const struct jespan_reporter *module_find_reporter(const char *name)
{
    return open_module("reporter", name);
}

const struct service *module_find_service(const char *name)
{
    return open_module("service", name);
}
