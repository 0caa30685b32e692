# SPDX-License-Identifier: BSD-2-Clause
# The tests. make check runs them; a test exits with 0 (passed), 77 (skipped) or anything else (failed). To add one: the file,
# and its name in the local.mk of its folder. tests/unit/base/test_clock is made from tests/unit/base/test_clock.c; a C++ test
# names its source too.

# Unit tests are linked with a copy of the core that leaves the process's malloc alone: the family is jespan_malloc….
unit_tests =

# Integration tests are linked with libjespan.so, so that its malloc is theirs.
integration_tests =
cxx_tests =

# Stress tests are built like integration tests; with --enable-sanitizer like unit tests.
stress_tests =

# Scripts that check the source: once is enough for all builds. `make check source_checks=` leaves them out.
all_source_checks = \
	tools/check-docs \
	tools/check-layers \
	tools/check-lists \
	tools/check-scripts \
	tools/check-style
source_checks = $(all_source_checks)

# Compiles each header: once is enough for each compiler.
header_checks = tools/check-headers

# Scripts find what was built through the environment, see AM_TESTS_ENVIRONMENT.
script_tests = \
	tools/check-hot-path \
	tools/check-symbols

# Counts instructions in a simulator: once is enough for each compiler. `make check instruction_checks=` leaves it out.
all_instruction_checks = tools/check-instructions
instruction_checks = $(all_instruction_checks)

# Scripts that read heap dumps, so that they need the pprof exporter. `make check dump_script_tests=` leaves them out.
all_dump_script_tests =
dump_script_tests = $(all_dump_script_tests)

# Scripts that use up memory or time. `make check load_tests=` leaves them out.
all_load_tests =
load_tests = $(all_load_tests)

# Scripts that ask the service http, and those that push. `make check service_tests=` leaves them out.
http_script_tests =
pyroscope_script_tests =

# Scripts that meet programs of others, which they fetch and build. `make check peer_tests=` leaves them out.
all_peer_tests =
peer_tests = $(all_peer_tests)

# What the tests include, compile or run
test_programs =
test_support =
check_LTLIBRARIES =
check_LIBRARIES =

include %D%/support/local.mk
include %D%/unit/local.mk
include %D%/integration/local.mk
include %D%/stress/local.mk
include %D%/interop/local.mk
include %D%/fuzz/local.mk

own_core_tests = $(fuzz_targets)
interposed_tests = $(integration_tests)
if HAVE_CMOCKA
own_core_tests += $(unit_tests)
endif
if HAVE_CXX
interposed_tests += $(cxx_tests)
endif
if SANITIZER
own_core_tests += $(stress_tests)
else
interposed_tests += $(stress_tests)
endif
own_core_programs = $(own_core_tests) $(test_programs)

# The long ones come first, so that the last minute has work for all processors.
# Sanitizers see only linked code: programs with the core in them.
check_PROGRAMS = $(own_core_programs)
TESTS =
if !SANITIZER
check_PROGRAMS += $(interposed_tests)
if PPROF
TESTS += $(load_tests)
endif
if PYROSCOPE
if HTTP
TESTS += $(peer_tests)
endif
endif
service_tests =
if PYROSCOPE
service_tests += $(pyroscope_script_tests)
endif
if HTTP
service_tests += $(http_script_tests)
endif
TESTS += $(service_tests)
if PPROF
TESTS += $(dump_script_tests)
endif
TESTS += $(header_checks) $(instruction_checks) $(script_tests) $(source_checks) $(interposed_tests)
endif
TESTS += $(own_core_tests)
EXTRA_DIST += $(test_support) $(script_tests) $(all_instruction_checks) $(all_source_checks) $(all_dump_script_tests) $(http_script_tests) $(pyroscope_script_tests) \
	$(all_load_tests) $(all_peer_tests)

test_cppflags = -iquote $(top_srcdir)/exporters

check_LIBRARIES += tests/libcore.a
tests_libcore_a_SOURCES = $(core_sources) $(shared_sources) $(outside_sources)
tests_libcore_a_CPPFLAGS = $(AM_CPPFLAGS) $(test_cppflags) -DJESPAN_NO_INTERPOSE $(LIBCURL_CFLAGS) $(LIBMICROHTTPD_CFLAGS)
tests_libcore_a_CFLAGS = $(core_cflags) $(SANITIZER_CFLAGS)
tests_libcore_a_LIBADD = $(private_jemalloc)
if PPROF
tests_libcore_a_SOURCES += $(pprof_sources) $(exporter_sources) $(service_sources) tests/support/made_snapshot.c
nodist_tests_libcore_a_SOURCES = $(profile_c)
if PYROSCOPE
tests_libcore_a_SOURCES += $(pyroscope_sources) $(otlp_sources) $(push_sources)
nodist_tests_libcore_a_SOURCES += $(pyroscope_c) $(otlp_c)
endif
if HTTP
tests_libcore_a_SOURCES += $(http_sources)
nodist_tests_libcore_a_SOURCES += $(http_page_c)
endif
endif

# All that the tests run besides what `make` builds. The programs of a sanitizer build need nothing else.
test-programs: $(BUILT_SOURCES)
	$(MAKE) $(AM_MAKEFLAGS) $(check_LIBRARIES) $(check_LTLIBRARIES) $(check_PROGRAMS)
.PHONY: test-programs

# Flags for all tests of a kind, so that a test needs no lines of its own. They are make's target variables; "private"
# keeps them from what a test depends on.
own_core_objects = $(own_core_programs:=.$(OBJEXT))
interposed_objects = $(interposed_tests:=.$(OBJEXT))
if SANITIZER
own_core_objects += $(stress_parts:=.$(OBJEXT))
else
interposed_objects += $(stress_parts:=.$(OBJEXT))
endif
$(own_core_objects): private AM_CPPFLAGS += $(test_cppflags) -DJESPAN_NO_INTERPOSE $(CMOCKA_CFLAGS)
$(own_core_objects) $(own_core_programs): private AM_CFLAGS += $(SANITIZER_CFLAGS)
$(own_core_objects) $(own_core_programs): private AM_CXXFLAGS += $(SANITIZER_CFLAGS)
$(own_core_programs): private LDADD = \
	tests/libcore.a $(CMOCKA_LIBS) $(PROTOBUF_C_LIBS) $(ZLIB_LIBS) $(LIBCURL_LIBS) \
	$(LIBMICROHTTPD_LIBS) $(JEMALLOC_LIBS) -lpthread -ldl
$(own_core_programs): tests/libcore.a
$(interposed_objects): private AM_CPPFLAGS += $(test_cppflags)
$(interposed_objects): private AM_CFLAGS += $(no_builtin)
$(interposed_objects): private AM_CXXFLAGS += $(no_builtin)
$(interposed_tests): private LDADD = .libs/libjespan.so -Wl,-rpath,$(abs_top_builddir)/.libs -lpthread
$(interposed_tests): libjespan.la
# Without libtool, which takes several times as long as the linker.
$(check_PROGRAMS): private LINK = $(CCLD) $(AM_CFLAGS) $(CFLAGS) $(AM_LDFLAGS) $(LDFLAGS) -o $@
$(check_PROGRAMS): private CXXLINK = $(CXXLD) $(AM_CXXFLAGS) $(CXXFLAGS) $(AM_LDFLAGS) $(LDFLAGS) -o $@

TEST_EXTENSIONS = .sh
LOG_COMPILER = bash $(top_srcdir)/tests/support/bounded.sh
SH_LOG_COMPILER = $(LOG_COMPILER) bash
# Before a fork, jemalloc takes more locks than ThreadSanitizer's detector of deadlocks has room for. jespan's own locks
# have ranks, which assertions check.
AM_TESTS_ENVIRONMENT = \
	export top_srcdir='$(abs_top_srcdir)' top_builddir='$(abs_top_builddir)'; \
	export JESPAN_LIB='$(abs_top_builddir)/.libs/libjespan.so' JESPAN_MODULES='$(abs_top_builddir)/exporters/.libs'; \
	export JESPAN_CMD='$(abs_top_builddir)/jespan' JESPAN_BINDING='$(jemalloc_binding)'; \
	export CFLAGS_USED='$(CFLAGS)' CC='$(CC)' CXX='$(CXX)' NM='$(NM)' CPPFLAGS='$(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(CPPFLAGS)'; \
	export TSAN_OPTIONS='suppressions=$(abs_top_srcdir)/tests/support/thread_sanitizer.supp:detect_deadlocks=0'" $$TSAN_OPTIONS"; \
	unset JESPAN_CONF MALLOC_CONF LD_PRELOAD MAKEFLAGS MFLAGS MAKELEVEL;
