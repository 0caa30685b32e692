/* SPDX-License-Identifier: BSD-2-Clause */
/* How the comments of a profile begin that readers look for. */
#ifndef JESPAN_BASE_COMMENTS_H
#define JESPAN_BASE_COMMENTS_H

#define COMMENT_RESIDENT "resident memory: " /* then the bytes */
#define COMMENT_STACKS "too many stacks: "

#endif
