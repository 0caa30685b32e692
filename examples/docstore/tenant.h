/* SPDX-License-Identifier: BSD-2-Clause */
/* Tenants as a label.
 *
 * Clients name them, and each value of a label makes contexts of its own, so their number is bounded here: the first
 * MAX_TENANTS names are kept, all later ones are "other".
 */
#ifndef DOCSTORE_TENANT_H
#define DOCSTORE_TENANT_H

#define MAX_TENANTS 16

/* `header` is what the client sent or NULL. Returns the label's value, valid forever, or NULL if it is not a name of
 * 1 to 64 letters, digits, dots, dashes and underscores. Thread-safe. */
const char *tenant_label(const char *header);

#endif
