# SPDX-License-Identifier: BSD-2-Clause
core_sources += \
	%D%/ctl.c %D%/ctl.h \
	%D%/ctl_alerts.c \
	%D%/ctl_arenas.c \
	%D%/ctl_contexts.c \
	%D%/ctl_jemalloc.c \
	%D%/ctl_limits.c \
	%D%/ctl_names.c \
	%D%/ctl_outside.c \
	%D%/ctl_paths.c \
	%D%/ctl_stats.c \
	%D%/ctl_threads.c \
	%D%/stats_print.c \
	%D%/stats_section.c %D%/stats_section.h

EXTRA_DIST += %D%/README.md
