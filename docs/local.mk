# SPDX-License-Identifier: BSD-2-Clause
# The manual pages are made of documents. To add one: its name here, and a rule with its summary.
man_pages = man/jespan.1 man/jespan.3 man/jespan-mallctl.3 man/jespan-snapshots.3 man/jespan-conf.5 man/jespan-operations.7

# make_man NAME SECTION SUMMARY DOCUMENT
make_man = @$(MKDIR_P) man; \
	$(if $(filter 0,$(V)),echo "  MAN      $@";) \
	$(top_srcdir)/tools/make-man
to_page = > $@.tmp && mv $@.tmp $@

man/jespan.1: docs/command.md tools/make-man
	$(make_man) jespan 1 "run programs and ask which span holds their memory" $(top_srcdir)/docs/command.md $(to_page)
man/jespan.3: docs/spans.md tools/make-man
	$(make_man) jespan 3 "say which unit of work allocates" $(top_srcdir)/docs/spans.md $(to_page)
man/jespan-mallctl.3: docs/mallctl.md tools/make-man
	$(make_man) jespan-mallctl 3 "names that mallctl answers" $(top_srcdir)/docs/mallctl.md $(to_page)
man/jespan-snapshots.3: docs/snapshots.md tools/make-man
	$(make_man) jespan-snapshots 3 "all contexts with their figures, and what changed" $(top_srcdir)/docs/snapshots.md $(to_page)
man/jespan-conf.5: docs/configuration.md tools/make-man
	$(make_man) jespan-conf 5 "keys of JESPAN_CONF" $(top_srcdir)/docs/configuration.md $(to_page)
man/jespan-operations.7: docs/operations.md tools/make-man
	$(make_man) jespan-operations 7 "run jespan in production" $(top_srcdir)/docs/operations.md $(to_page)

if LOWDOWN
man_MANS = $(man_pages)
CLEANFILES += $(man_pages)
endif
