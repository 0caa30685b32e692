/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions that start threads, as libjespan.so exports them. They call libc's. With inherit:true, the new thread
 * starts in the context that its creator is in. Threads that libraries make for services belong to jespan. */
#ifndef JESPAN_INHERIT_H
#define JESPAN_INHERIT_H

#include <pthread.h>
#include <threads.h>

#include "base/compiler.h"

int FAMILY(pthread_create)(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int FAMILY(thrd_create)(thrd_t *thread, thrd_start_t run, void *argument);

#endif
