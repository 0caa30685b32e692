/* SPDX-License-Identifier: BSD-2-Clause */
/* Exporters that are linked into a static program. Each is a weak symbol. To add one, add a row. */
#include <stddef.h>
#include <string.h>

#include "base/die.h"
#include "report/module.h"

extern const struct exporter jespan_exporter_pprof __attribute__((weak));

const struct exporter *module_find(const char *name)
{
    const struct exporter *const linked[] = {&jespan_exporter_pprof};
    for (size_t i = 0; i < sizeof linked / sizeof linked[0]; i++)
        if (linked[i] && !strcmp(linked[i]->name, name))
            return linked[i];
    WARN("exporter ", name, ": not linked into this program (see pkg-config --static jespan)");
    return NULL;
}

const struct jespan_reporter *module_find_reporter(const char *name)
{
    WARN("reporter ", name, ": a static program cannot load one; it can call jespan_register_reporter()");
    return NULL;
}

const struct service *module_find_service(const char *name)
{
    WARN("service ", name, ": a static program cannot load one");
    return NULL;
}
