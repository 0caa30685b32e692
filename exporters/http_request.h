/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests of the service `http`: from the head of a request to its answer. libmicrohttpd calls the first two functions. */
#ifndef JESPAN_HTTP_REQUEST_H
#define JESPAN_HTTP_REQUEST_H

#include <microhttpd.h>

#include "http_server.h"

/* Called when the first line of a request is there. libmicrohttpd closes a connection with too many arguments without
 * an answer, because it has no memory for them. So this function answers first. */
void *http_request_look_at_uri(void *server, const char *uri, struct MHD_Connection *mhd);

/* Called when the head of a request is complete, again if that gave no answer, and again when it is resumed. Bodies
 * are not read. */
enum MHD_Result http_request_handle(void *server, struct MHD_Connection *mhd, const char *url, const char *method,
                                    const char *version, const char *upload, size_t *upload_bytes, void **request_place);

/* The request of the connection no longer needs the start of its difference. */
void http_request_drop_start(struct http_server *server, struct http_connection *c);

#endif
