# SPDX-License-Identifier: BSD-2-Clause
core_sources += \
	%D%/allocators.def \
	%D%/array.h \
	%D%/own_memory.h \
	%D%/otel_context.c %D%/otel_context.h \
	%D%/parse.c %D%/parse.h \
	%D%/path_writer.h \
	%D%/perf_map.h \
	%D%/clock.c %D%/clock.h \
	%D%/comments.h \
	%D%/compiler.h \
	%D%/constants.c %D%/constants.h \
	%D%/cpu_clock.c %D%/cpu_clock.h \
	%D%/descriptor.h \
	%D%/die.c %D%/die.h \
	%D%/dump_on.c %D%/dump_on.h \
	%D%/encode.h \
	%D%/exceptions.c %D%/exceptions.h \
	%D%/figures.h \
	%D%/forked.h \
	%D%/futex.h \
	%D%/hash.h \
	%D%/libc_calls.c %D%/libc_calls.h \
	%D%/lock.c %D%/lock.h \
	%D%/mailbox.h \
	%D%/memory_bounds.c %D%/memory_bounds.h \
	%D%/meta.c %D%/meta.h \
	%D%/number.h \
	%D%/process_stat.h \
	%D%/procfile.c %D%/procfile.h \
	%D%/state_file.c %D%/state_file.h \
	%D%/state_create.c \
	%D%/state_maps.c \
	%D%/stop_sockets.c %D%/stop_sockets.h \
	%D%/text_is.h \
	%D%/totals.h \
	%D%/utf8.h

EXTRA_DIST += %D%/README.md
