/* SPDX-License-Identifier: BSD-2-Clause */
/* Modules as shared objects: opened locally, so that their libraries stay out of the program's symbol search. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "conf.h"
#include "descriptor.h"
#include "die.h"
#include "module.h"

#define LOADED_MAX 16

/* What the module defines as jespan_KIND_NAME. */
static const void *open_module(const char *kind, const char *name)
{
    char path[CONF_STRING_BYTES + 64], symbol[64];
    snprintf(path, sizeof path, "%s/%s.so", conf.module_dir, name);
    snprintf(symbol, sizeof symbol, "jespan_%s_%s", kind, name);
    struct stdio_holes holes;
    stdio_holes_fill(&holes);
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    stdio_holes_empty(&holes);
    const void *found = module ? dlsym(module, symbol) : NULL;
    if (!found) {
        const char *error = dlerror();
        WARN(kind, " ", name, ": ", error ? error : "unknown error", "; see module_dir");
    }
    return found;
}

static const struct exporter *open_exporter(const char *name)
{
    const struct exporter *exporter = open_module("exporter", name);
    if (exporter && exporter->abi != EXPORTER_ABI) {
        WARN("exporter ", name, ": the module in ", conf.module_dir, " is of another version of jespan; see module_dir");
        return NULL;
    }
    return exporter;
}

const struct exporter *module_find(const char *name)
{
    static struct {
        const char *name;
        const struct exporter *exporter;
    } loaded[LOADED_MAX]; /* callers are serialised by dump.c */
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
