# SPDX-License-Identifier: BSD-2-Clause
core_sources += \
	%D%/binding.c %D%/binding.h \
	%D%/reserve.c %D%/reserve.h

EXTRA_DIST += %D%/README.md
