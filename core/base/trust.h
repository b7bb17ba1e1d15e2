/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trust.h - may this process use a file?  Only if nobody can change the file but root and the user.
 *
 * The rule: root or the effective user owns every directory from "/" to the file, every symbolic link
 * on the way and the file, and nobody else, no group either, may write to these directories or to
 * the file.  A sticky directory like /tmp may be writable, because its users cannot replace each
 * other's entries.  The directory of a plugin may not even be sticky, since the dynamic linker may
 * search it for libraries.  A set-gid program does not count as its user: only root's files are
 * good for it.
 *
 * For a process that is neither root nor set-uid or set-gid, two more owners are good: the owner of the
 * running libcoll, who controls the process anyway, and the owner of "/", which is not 0 in a user
 * namespace without root.  Groups may write, since a umask of 002 is common; a note says so, unless the
 * group has the number of the owner, as private groups have.
 *
 * In a user namespace (rootless containers, `unshare -Ur`, bubblewrap) Linux shows one number, the overflow uid
 * (65534), for every user whom /proc/self/uid_map leaves out: root of the host and a stranger look alike.  So this
 * number is never a good owner, inside or outside such namespaces, even for a process that has it.  If the map
 * leaves users out, and no user has the number itself, three places are good whoever owns them, provided that
 * only the owner may write there:
 *   the directories above the running libcoll, and above the user's own home directory ($HOME): their owners
 *     control the process, or the user, anyway;
 *   symbolic links in a directory that passes the rule and to which only its owner may write;
 *   if libcoll's own owner is hidden, too: the files below the directory that holds libcoll, where `make install` puts
 *     plugins, and the system's configuration directory.
 * A set-uid or set-gid program has no such places.
 *
 * The environment variable COLL_TRUST, "/home/ci/src:/opt/x", names trees that others control and that the
 * user trusts.  The rule does not hold for these trees, for the directories above them, and for a symbolic
 * link that the variable names itself.  A set-uid or set-gid program ignores the variable.
 *
 * If the rule holds for a path, users outside the rule can replace nothing on it.  So the caller may open
 * the file by its path afterwards; only root or the user (chmod, chown, mv) could change the path in
 * between.
 *
 * Not protected: the libraries that a plugin depends on or opens itself; access lists of NFSv4 (POSIX access lists
 * show as the rights of the group); file systems that lie about owners; a descriptor that the former owner of a file
 * still has open for writing; in a user namespace, a file below libcoll's directory that root of the host gave to a
 * stranger; processes with capabilities, but without user 0.
 */
#ifndef CORE_BASE_TRUST_H
#define CORE_BASE_TRUST_H

#include <sys/stat.h>

enum { TRUST_NOTE_SIZE = 600 };

struct trust {
	struct stat file; /* the file at the end of all links */
	/* "", or the first owner or mode that passed by COLL_TRUST, or because a group may write. */
	char note[TRUST_NOTE_SIZE];
	int by_group; /* the note is about a group, and about the file or its directory */
};

/*
 * Judges the path to an existing file.  The caller passes the path as the user wrote it, since realpath() would hide the
 * links.  is_plugin: applies the stricter rule for the file's directory.  Returns COLL_ERR_PERMISSION with a text that
 * names the first fault, the rule and the remedies.
 */
int trust_check(const char *path, int is_plugin, struct trust *trust);
/*
 * Applies the rule to the symbolic links on the path only.  It serves a directory that may be another user's, but to which
 * no link of another user may lead.  fd: of the directory, which the caller has opened by the same path; one that the judged
 * path does not lead to is refused, as after a link that another user has put there meanwhile.
 */
int trust_check_links(const char *path, int fd);

#endif
