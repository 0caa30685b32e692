# SPDX-License-Identifier: BSD-2-Clause
core_sources += \
	%D%/ledger.c %D%/ledger.h \
	%D%/outlived.c %D%/outlived.h \
	%D%/owners.c %D%/owners.h \
	%D%/reading.c %D%/reading.h \
	%D%/snapshot.c %D%/snapshot.h \
	%D%/snapshot_ages.c \
	%D%/snapshot_making.h

EXTRA_DIST += %D%/README.md
