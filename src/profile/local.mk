# SPDX-License-Identifier: BSD-2-Clause
report_sources += \
	%D%/allocators.c %D%/allocators.h \
	%D%/hash.c %D%/hash.h \
	%D%/profile.c %D%/profile.h \
	%D%/profile_edit.c \
	%D%/profile_fields.c %D%/profile_fields.h \
	%D%/profile_frames.c \
	%D%/profile_sample.c \
	%D%/roles.c %D%/roles.h \
	%D%/stack.c %D%/stack.h \
	%D%/string_is.h \
	%D%/symbolize.c %D%/symbolize.h \
	%D%/wire.h

# A profile as the command reads it
profile_parts_c = %D%/profile_parts.pb-c.c
profile_parts_h = %D%/profile_parts.pb-c.h

EXTRA_DIST += %D%/README.md %D%/profile_parts.proto
