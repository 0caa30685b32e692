/* SPDX-License-Identifier: BSD-2-Clause */
/* Finding exporters: with dlopen (module_dl.c), or in a static program among what was linked in (module_static.c). */
#ifndef JESPAN_MODULE_H
#define JESPAN_MODULE_H

#include "../exporters/exporter.h"

/* The exporter of that name; loaded once, never unloaded. NULL, after saying why on stderr once, when there is none.
 * May allocate from the heap: call it in the context "(jespan)", with no lock held. */
const struct exporter *module_find(const char *name);

#endif
