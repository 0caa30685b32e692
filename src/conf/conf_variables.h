/* SPDX-License-Identifier: BSD-2-Clause */
/* Variables that others defined, as keys of the configuration. Adding one is a row in conf_variables.c. */
#ifndef JESPAN_CONF_VARIABLES_H
#define JESPAN_CONF_VARIABLES_H

/* Sets what they say, by a function such as getenv(). What is wrong is named on stderr and left out. */
void conf_variables_read(const char *(*variable)(const char *name));

#endif
