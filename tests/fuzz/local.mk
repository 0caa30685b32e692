# SPDX-License-Identifier: BSD-2-Clause
# Fuzz targets: tools/fuzz runs them for long, `make check` runs their corpora. To add one: the file, its name here, and a
# directory of that name in corpus/.
fuzz_targets = \
	%D%/fuzz_control \
	%D%/fuzz_core \
	%D%/fuzz_page \
	%D%/fuzz_view

# The command's code is compiled once more for it, so only where a sanitizer sees what it does.
if SANITIZER
if PPROF
fuzz_targets += \
	%D%/fuzz_report \
	%D%/fuzz_top
check_LIBRARIES += tests/libcommand.a
endif
endif
tests_libcommand_a_SOURCES = src/console/options.c src/console/options.h $(report_sources) $(symbols_sources)
nodist_tests_libcommand_a_SOURCES = $(profile_parts_c)
tests_libcommand_a_CPPFLAGS = $(jespan_CPPFLAGS)
tests_libcommand_a_CFLAGS = $(AM_CFLAGS) $(SANITIZER_CFLAGS)
tests_fuzz_fuzz_report_LDADD = tests/libcommand.a tests/libcore.a $(LDADD) $(LIBELF_LIBS) $(LIBDW_LIBS)
EXTRA_tests_fuzz_fuzz_report_DEPENDENCIES = tests/libcommand.a tests/libcore.a
tests_fuzz_fuzz_top_LDADD = $(tests_fuzz_fuzz_report_LDADD)
EXTRA_tests_fuzz_fuzz_top_DEPENDENCIES = tests/libcommand.a tests/libcore.a

test_support += \
	%D%/command_parts.h \
	%D%/exact_memory.h \
	%D%/fuzz.h
EXTRA_DIST += %D%/corpus
