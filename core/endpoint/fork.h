/* SPDX-License-Identifier: BSD-3-Clause */
/* fork.h - a child process has no part in its parent's communicators. */
#ifndef CORE_ENDPOINT_FORK_H
#define CORE_ENDPOINT_FORK_H

/* From now on, forks of this process are prepared for.  Cheap when called again. */
void fork_watch(void);

#endif
