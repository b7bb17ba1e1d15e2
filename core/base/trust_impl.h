/* SPDX-License-Identifier: BSD-3-Clause */
/* trust_impl.h - shared by trust.c and trust_owner.c. */
#ifndef CORE_BASE_TRUST_IMPL_H
#define CORE_BASE_TRUST_IMPL_H

#include <sys/stat.h>

/* The users whom a process knows. */
struct trust_owners {
	uid_t nobody; /* the number that stands for every user without a number here */
	gid_t nogroup;
	/* 1: the user namespace has users without a number, and no user has the number `nobody` itself. */
	int hidden;
	char map[64]; /* /proc/self/uid_map in one line, "0 1000 1" */
	/* If hidden: paths without links, or NULL. */
	char *library; /* the file of the running libcoll */
	char *home;    /* the user's home directory, which belongs to the user */
	char *config;  /* the directory of the system's configuration files */
};

void trust_owners_read(struct trust_owners *owners);
void trust_owners_free(struct trust_owners *owners);

/* Is the program set-uid or set-gid? */
int trust_is_secure(void);
/* Does a group count as somebody else? */
int trust_is_privileged(void);
/* Is the owner root, the user, or another good owner (trust.h)? */
int trust_is_owner(const struct trust_owners *owners, uid_t uid);
/* Is the path the tree itself, or below it?  Both are without links. */
int trust_is_below(const char *path, const char *tree);
/*
 * Is the file or directory, whose owner has no number here, at a place where only owners can put files who control libcoll
 * or the user anyway?  The path is without links.
 */
int trust_is_placed(const struct trust_owners *owners, const char *path, const struct stat *st);

#endif
