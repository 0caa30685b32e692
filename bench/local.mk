# SPDX-License-Identifier: BSD-2-Clause
# bench/run compiles them itself where these are missing or outdated.
EXTRA_PROGRAMS += %D%/workloads
bench_workloads_SOURCES = \
	%D%/contexts.c %D%/contexts.h \
	%D%/forks.c \
	%D%/main.c \
	%D%/memory.c \
	%D%/pauses.c \
	%D%/single.c \
	%D%/snapshots.c \
	%D%/spans.c %D%/spans.h \
	%D%/stacks.c \
	%D%/threads.c \
	%D%/workload.h \
	%D%/workloads.c
bench_workloads_LDADD = -lpthread
EXTRA_DIST += %D%/benchlib %D%/instructions %D%/isolation %D%/lines %D%/peers %D%/programs %D%/regions %D%/run
bench-programs: %D%/workloads
bench: all %D%/workloads
	$(top_srcdir)/%D%/run $(BENCH_FLAGS)

.PHONY: bench bench-programs
