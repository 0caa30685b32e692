/* SPDX-License-Identifier: BSD-2-Clause */
/* Exporters that are linked into a static program. Each is a weak symbol. */
#include <stddef.h>
#include <string.h>

#include "base/die.h"
#include "report/module.h"

#define DECLARE(name, suffix) extern const struct exporter jespan_exporter_##name __attribute__((weak));
EXPORTER_TABLE(DECLARE)

const struct exporter *module_find(const char *name)
{
#define ADDRESS(name, suffix) &jespan_exporter_##name,
    const struct exporter *const linked[] = {EXPORTER_TABLE(ADDRESS)};
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
