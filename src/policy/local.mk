# SPDX-License-Identifier: BSD-2-Clause
core_sources += \
	%D%/arena_cache.c %D%/arena_cache.h \
	%D%/arena_magazines.c \
	%D%/arenas.c %D%/arenas.h \
	%D%/context_policy.c \
	%D%/limits.c %D%/limits.h \
	%D%/limit_admit.c \
	%D%/limit_charge.c \
	%D%/limit_claims.c \
	%D%/limit_conf.c \
	%D%/limit_internal.h \
	%D%/limit_rules.c %D%/limit_rules.h \
	%D%/limit_sections.c \
	%D%/limit_tree.c \
	%D%/regions.c %D%/regions.h

EXTRA_DIST += %D%/README.md
