# SPDX-License-Identifier: BSD-2-Clause
script_tests += %D%/event-loop/check.sh %D%/thread-pool/check.sh
script_tests += %D%/growth/check.sh
EXTRA_DIST += %D%/growth/growth.c
all_dump_script_tests += %D%/docstore/check.sh %D%/shop/check.sh

# Examples that can be built here
example_programs = %D%/thread-pool/thread-pool
EXTRA_PROGRAMS += $(example_programs)
EXTRA_DIST += %D%/cpp/coroutine.cc %D%/cpp/jthread.cc
EXTRA_DIST += %D%/figures.h %D%/figures.sh

examples_thread_pool_thread_pool_SOURCES = \
	%D%/thread-pool/main.c \
	%D%/thread-pool/pool.c %D%/thread-pool/pool.h
examples_thread_pool_thread_pool_LDFLAGS = -no-install
examples_thread_pool_thread_pool_LDADD = libjespan.la -lpthread
%D%/thread-pool/check.log: %D%/thread-pool/thread-pool

if HAVE_LIBUV
example_programs += %D%/event-loop/event-loop
examples_event_loop_event_loop_SOURCES = %D%/event-loop/main.c
examples_event_loop_event_loop_CPPFLAGS = $(AM_CPPFLAGS) $(LIBUV_CFLAGS)
examples_event_loop_event_loop_LDFLAGS = -no-install
examples_event_loop_event_loop_LDADD = libjespan.la $(LIBUV_LIBS)
%D%/event-loop/check.log: %D%/event-loop/event-loop
endif

EXTRA_DIST += %D%/reporter/csv.c %D%/shop/shop.c %D%/docstore/load %D%/docstore/load.lua %D%/docstore/service.sh
EXTRA_DIST += %D%/docstore/chart %D%/docstore/chart.py %D%/docstore/picture %D%/docstore/rogue %D%/docstore/rogue.py
if HAVE_EXAMPLES
example_programs += %D%/docstore/docstore
examples_docstore_docstore_SOURCES = \
	%D%/docstore/cache.c %D%/docstore/cache.h \
	%D%/docstore/docs.c %D%/docstore/docs.h \
	%D%/docstore/document.c %D%/docstore/document.h \
	%D%/docstore/figures.c %D%/docstore/figures.h \
	%D%/docstore/http.c %D%/docstore/http.h \
	%D%/docstore/main.c \
	%D%/docstore/routes.c %D%/docstore/routes.h \
	%D%/docstore/spans.h \
	%D%/docstore/store.c %D%/docstore/store.h \
	%D%/docstore/tenant.c %D%/docstore/tenant.h
examples_docstore_docstore_CPPFLAGS = $(AM_CPPFLAGS) $(EXAMPLES_CFLAGS)
examples_docstore_docstore_LDFLAGS = -no-install
examples_docstore_docstore_LDADD = libjespan.la $(EXAMPLES_LIBS) -lpthread
examples: $(example_programs)
%D%/docstore/check.log tests/stress/soak.log: %D%/docstore/docstore
else
examples: $(example_programs)
	@echo "docstore needs libmicrohttpd, jansson and sqlite3, which configure did not find. On Debian:" >&2
	@echo "  apt-get install libmicrohttpd-dev libjansson-dev libsqlite3-dev" >&2
	@echo "and then run configure again." >&2
	@exit 1
endif

.PHONY: examples
