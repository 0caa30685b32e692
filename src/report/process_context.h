/* SPDX-License-Identifier: BSD-2-Clause */
/* The process context of OpenTelemetry (OTEP 4719): a mapping by which profilers of other processes learn what this process is.
 * Nothing is published unless conf.otel_context. */
#ifndef JESPAN_PROCESS_CONTEXT_H
#define JESPAN_PROCESS_CONTEXT_H

/* Publishes it. A forked child does not have its parent's, and publishes one of its own. */
void process_context_start(void);

#endif
