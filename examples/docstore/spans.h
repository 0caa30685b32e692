/* SPDX-License-Identifier: BSD-2-Clause */
/* The span API under this program's name. */
#ifndef DOCSTORE_SPANS_H
#define DOCSTORE_SPANS_H

#define JESPAN_TARGET "docstore"
#include <jespan/jespan.h>

#endif
