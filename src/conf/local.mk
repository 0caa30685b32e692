# SPDX-License-Identifier: BSD-2-Clause
core_sources += \
	%D%/conf.c %D%/conf.h \
	%D%/conf_keys.c %D%/conf_keys.def \
	%D%/conf_parse.c \
	%D%/conf_values.c %D%/conf_values.h \
	%D%/conf_variables.c

EXTRA_DIST += %D%/README.md
