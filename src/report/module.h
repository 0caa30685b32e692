/* SPDX-License-Identifier: BSD-2-Clause */
/* Finding exporters, reporters and services: with dlopen (module_dl.c), or in a static program among what was linked
 * in (module_static.c). */
#ifndef JESPAN_MODULE_H
#define JESPAN_MODULE_H

#include "jespan/reporter.h"
#include "report/exporter.h"
#include "report/service.h"

/* The exporter of that name; loaded once, never unloaded. NULL, after saying why on stderr once, when there is none.
 * May allocate from the heap: call it in the context "(jespan)", with no lock held. */
const struct exporter *module_find(const char *name);

/* The reporter of that name, likewise. A static program has none: it registers its own. */
const struct jespan_reporter *module_find_reporter(const char *name);

/* The service of that name, likewise. A static program has none. */
const struct service *module_find_service(const char *name);

#endif
