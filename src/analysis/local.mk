# SPDX-License-Identifier: BSD-2-Clause
report_sources += \
	%D%/html.c %D%/html.h \
	%D%/html_dumps.c \
	%D%/html_labels.c \
	%D%/html_pack.c \
	%D%/leaks.c %D%/leaks.h \
	%D%/leaks_rows.c \
	%D%/report.c %D%/report.h \
	%D%/report_by.c \
	%D%/report_columns.c \
	%D%/report_directory.c \
	%D%/report_export.c \
	%D%/report_filter.c \
	%D%/report_folded.c \
	%D%/report_input.c \
	%D%/report_path.c \
	%D%/report_rows.c \
	%D%/report_svg.c \
	%D%/report_table.c \
	%D%/report_top.c \
	%D%/report_tree.c \
	%D%/suppressions.c \
	exporters/flame_svg.c exporters/flame_svg.h exporters/svg_text.c exporters/svg_text.h
if PYROSCOPE
report_sources += %D%/fetch.c
else
report_sources += %D%/fetch_without.c
endif

EXTRA_DIST += %D%/README.md
