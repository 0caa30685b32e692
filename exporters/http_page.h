/* SPDX-License-Identifier: BSD-2-Clause */
/* The page, http_page.html, as the build puts it into the module. */
#ifndef JESPAN_HTTP_PAGE_H
#define JESPAN_HTTP_PAGE_H

extern const char http_page[];

#endif
