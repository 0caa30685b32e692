# SPDX-License-Identifier: BSD-2-Clause
core_sources += \
	%D%/alloc_policy.c %D%/alloc_policy.h \
	%D%/boot.c %D%/boot.h \
	%D%/early.c %D%/early.h \
	%D%/family.h \
	%D%/libc_malloc.c %D%/libc_malloc.h \
	%D%/mailbox.c \
	%D%/malloc.c \
	%D%/malloc_info.c \
	%D%/mallocx.c \
	%D%/peak_looks.c %D%/peak_looks.h \
	%D%/probes.c %D%/probes.h \
	%D%/region_exceptions.c %D%/region_exceptions.h \
	%D%/region_release.c %D%/region_release.h \
	%D%/temporary.c %D%/temporary.h \
	%D%/track.h %D%/track_slow.h \
	%D%/track_alloc.c \
	%D%/track_flush.c \
	%D%/track_free.c \
	%D%/track_header.c \
	%D%/track_credit.c

EXTRA_DIST += %D%/README.md
