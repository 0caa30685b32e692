/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds exporters, reporters and services: with dlopen (module_dl.c), or among the modules linked into a static program
 * (module_static.c). */
#ifndef JESPAN_MODULE_H
#define JESPAN_MODULE_H

#include "jespan/reporter.h"
#include "report/exporter.h"
#include "report/service.h"

/* Finds an exporter by name. It is loaded once and never unloaded. NULL: there is none; the reason is written to
 * stderr once. May use malloc: call it in the context "(jespan)", with no lock held. */
const struct exporter *module_find(const char *name);

/* The same for a reporter. A static program can load none; it registers its own. */
const struct jespan_reporter *module_find_reporter(const char *name);

/* The same for a service. A static program can load none. */
const struct service *module_find_service(const char *name);

#endif
