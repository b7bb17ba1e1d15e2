/* SPDX-License-Identifier: BSD-3-Clause */
/* namespaces.h - namespaces of the kernel, in which a process sees another network and other files. */
#ifndef TESTS_NAMESPACES_H
#define TESTS_NAMESPACES_H

#include <sched.h>

/* Enters new namespaces (CLONE_NEW* flags).  A user without rights becomes root of a user namespace. */
int namespaces_enter(int flags);

/* In a mount namespace of its own: what the process mounts, no other process sees. */
int namespaces_hide_mounts(void);

/* Puts a file with this text in the place of `path`. */
int namespaces_replace(const char *path, const char *text);

/* Runs ip(8) with these arguments, in the namespace of the process; returns the result of system(). */
int namespaces_ip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Switches on the loopback device of a new network namespace. */
int namespaces_loopback(void);

#endif
