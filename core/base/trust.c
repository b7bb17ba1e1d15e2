/* SPDX-License-Identifier: BSD-3-Clause */
/* trust.c - follows a path from the root, link by link, and judges the owner and the mode of each step. */
#include "base/trust.h"
#include "base/error.h"
#include "base/log.h"
#include "base/trust_impl.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRUST_LINKS = 40 };

struct trust_walk {
	struct trust *trust;
	struct trust_owners owners;
	const char *path; /* as the caller gave it */
	int is_plugin;
	int links_only;
	int links;
	int closed; /* 1: the last directory belongs to a good owner, and nobody else may write there */
	char at[2 * PATH_MAX]; /* the judged part, without links; "": the root directory */
	char rest[PATH_MAX];   /* the names that follow `at` */
};

/* -------------------------------------------------------------------- COLL_TRUST -- */

static void trust_warn_once(const char *tree)
{
	static atomic_int warned;

	if (!atomic_exchange(&warned, 1))
		log_warn("COLL_TRUST names '%s', which is no absolute path: libcoll passes it over",
			 tree);
}

static int trust_in_tree(const char *path, const char *tree)
{
	char *real;
	int in_tree;

	if (tree[0] != '/') {
		trust_warn_once(tree);
		return 0;
	}
	real = realpath(tree, NULL);
	/* COLL_TRUST may name a symbolic link itself; the path to its target is judged too. */
	in_tree = strcmp(path, tree) == 0 ||
		  (real && (trust_is_below(path, real) || trust_is_below(real, path)));
	free(real);
	return in_tree;
}

/* Does COLL_TRUST name a tree that holds the path, or a tree below the path? */
static int trust_is_named(const char *path)
{
	const char *list = secure_getenv("COLL_TRUST");
	char *copy = list ? strdup(list) : NULL, *rest = copy, *tree;
	int named = 0;

	while (!named && (tree = strsep(&rest, ":")) != NULL)
		named = tree[0] && trust_in_tree(path, tree);
	free(copy);
	return named;
}

/* -------------------------------------------------------------------- judgement -- */

/* Returns the bits of the mode that let others write. */
static mode_t trust_others(const struct stat *st, int sticky_is_safe)
{
	if (S_ISLNK(st->st_mode))
		return 0;
	if (S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX) && sticky_is_safe)
		return 0;
	return st->st_mode & (S_IWOTH | S_IWGRP);
}

/* Does the user namespace hide the owner? */
static int trust_is_hidden(const struct trust_walk *walk, const struct stat *st)
{
	return walk->owners.hidden && st->st_uid == walk->owners.nobody;
}

/*
 * Is a hidden owner as good as root?  Nobody can change a symbolic link in a directory where nobody else may write.
 */
static int trust_is_good_place(const struct trust_walk *walk, const char *path,
			       const struct stat *st)
{
	if (!trust_is_hidden(walk, st))
		return 0;
	return S_ISLNK(st->st_mode) ? walk->closed : trust_is_placed(&walk->owners, path, st);
}

/* "another user owns the file '/x' (owner 1000, mode 0644)" */
static void trust_describe(const struct trust_walk *walk, char text[TRUST_NOTE_SIZE],
			   const char *path, const struct stat *st)
{
	const char *kind = S_ISDIR(st->st_mode)   ? "directory"
			   : S_ISLNK(st->st_mode) ? "symbolic link"
						  : "file";
	const char *fault =
		trust_is_owner(&walk->owners, st->st_uid) || trust_is_good_place(walk, path, st)
			? "others may write to"
		: trust_is_hidden(walk, st) ? "an unknown user owns"
					    : "another user owns";

	snprintf(text, TRUST_NOTE_SIZE, "%s the %s '%.400s' (owner %u, mode %04o)", fault, kind,
		 path, (unsigned)st->st_uid, (unsigned)st->st_mode & 07777);
}

/* chown cannot help here: the user namespace hides the owner's number. */
static int trust_refuse_hidden(const struct trust_walk *walk, const char *fault)
{
	const char *slash = strrchr(walk->path, '/');
	const int len = slash > walk->path ? (int)(slash - walk->path) : 1;

	if (trust_is_secure())
		return error_set(COLL_ERR_PERMISSION,
				 "refused for safety: %s; the user namespace of this process has "
				 "no number for the owner (/proc/self/uid_map: %s)",
				 fault, walk->owners.map[0] ? walk->owners.map : "empty");
	return error_set(COLL_ERR_PERMISSION,
			 "refused for safety: %s; the user namespace of this process has no "
			 "number for the owner (/proc/self/uid_map: %s), and chown cannot change "
			 "that: set COLL_TRUST=%.*s if you trust all who can change it",
			 fault, walk->owners.map[0] ? walk->owners.map : "empty",
			 len < 200 ? len : 200, slash ? walk->path : ".");
}

static int trust_refuse(const struct trust_walk *walk, const char *path, const struct stat *st)
{
	const unsigned user = (unsigned)geteuid(), nobody = (unsigned)walk->owners.nobody;
	char fault[TRUST_NOTE_SIZE], owner[64] = "root", shared[120] = "";

	trust_describe(walk, fault, path, st);
	if (trust_is_hidden(walk, st) && !trust_is_good_place(walk, path, st))
		return trust_refuse_hidden(walk, fault);
	if (user && user != nobody)
		snprintf(owner, sizeof(owner), "root or user %u", user);
	if (st->st_uid == nobody)
		snprintf(shared, sizeof(shared),
			 "; %u stands for every user without a number here, so it is nobody's",
			 nobody);
	return error_set(
		COLL_ERR_PERMISSION,
		"refused for safety: %s; %s must own the path and nobody else may write to "
		"it: use chown or chmod go-w%s%s",
		fault, owner,
		trust_is_secure() ? ""
				  : ", or name the tree in COLL_TRUST if you trust "
				    "all who can change it",
		shared);
}

/* Writes a note unless there is one already. */
static void trust_note(struct trust_walk *walk, const char *path, const struct stat *st,
		       int by_group)
{
	if (walk->trust->note[0])
		return;
	trust_describe(walk, walk->trust->note, path, st);
	walk->trust->by_group = by_group;
}

/* A private group has the number of its user. */
static int trust_is_private(const struct trust_walk *walk, const struct stat *st)
{
	return st->st_gid == st->st_uid && st->st_gid != walk->owners.nogroup;
}

/* in_place: the step is the file, or the directory that holds the file. */
static int trust_judge(struct trust_walk *walk, const char *path, const struct stat *st,
		       int in_place)
{
	const int sticky_is_safe = !(in_place && walk->is_plugin);
	const mode_t others = trust_others(st, sticky_is_safe);
	const int group_only = !(others & S_IWOTH) && !trust_is_privileged();
	const int owner = trust_is_owner(&walk->owners, st->st_uid);
	const int good = owner || trust_is_good_place(walk, path, st);

	if (!S_ISLNK(st->st_mode))
		walk->closed = good && !(st->st_mode & (S_IWOTH | S_IWGRP));
	if (walk->links_only && !S_ISLNK(st->st_mode))
		return COLL_SUCCESS;
	if (good && (!others || (owner && group_only))) {
		if (others && in_place && !trust_is_private(walk, st))
			trust_note(walk, path, st, 1);
		return COLL_SUCCESS;
	}
	if (!trust_is_named(walk->at))
		return trust_refuse(walk, path, st);
	trust_note(walk, path, st, 0);
	return COLL_SUCCESS;
}

/* -------------------------------------------------------------------- the walk -- */

static int trust_fail(const char *path, int err)
{
	return error_set(COLL_ERR_PERMISSION,
			 "refused for safety: the owner of '%.400s' cannot be checked: %s", path,
			 strerror(err));
}

static int trust_begin(struct trust_walk *walk, const char *path)
{
	char cwd[PATH_MAX] = "";

	if (path[0] != '/' && !getcwd(cwd, sizeof(cwd)))
		return trust_fail(".", errno);
	if ((size_t)snprintf(walk->rest, sizeof(walk->rest), "%s/%s", cwd, path) >=
	    sizeof(walk->rest))
		return trust_fail(path, ENAMETOOLONG);
	return COLL_SUCCESS;
}

static void trust_leave(struct trust_walk *walk)
{
	char *slash = strrchr(walk->at, '/');

	if (slash)
		*slash = '\0';
}

/* Follows the link at walk->at: puts the link's target before the names that follow. */
static int trust_follow(struct trust_walk *walk)
{
	char target[PATH_MAX], rest[PATH_MAX];
	const ssize_t n = readlink(walk->at, target, sizeof(target));

	if (n < 0 || n == sizeof(target))
		return trust_fail(walk->at, n < 0 ? errno : ENAMETOOLONG);
	if (++walk->links > TRUST_LINKS)
		return trust_fail(walk->at, ELOOP);
	if ((size_t)snprintf(rest, sizeof(rest), "%.*s/%s", (int)n, target, walk->rest) >=
	    sizeof(rest))
		return trust_fail(walk->at, ENAMETOOLONG);
	strcpy(walk->rest, rest);
	if (target[0] == '/')
		walk->at[0] = '\0';
	else
		trust_leave(walk);
	return COLL_SUCCESS;
}

static int trust_look(struct trust_walk *walk, int in_place)
{
	struct stat *st = &walk->trust->file;
	const char *path = walk->at[0] ? walk->at : "/";
	int code;

	if (lstat(path, st))
		return trust_fail(path, errno);
	code = trust_judge(walk, path, st, in_place);
	return !code && S_ISLNK(st->st_mode) ? trust_follow(walk) : code;
}

/* Takes the next name from `rest`.  Returns 1 if `at` is the name's path now, 0 for "." and "..". */
static int trust_take_name(struct trust_walk *walk)
{
	const char *name = walk->rest + strspn(walk->rest, "/");
	const size_t len = strcspn(name, "/"), used = strlen(walk->at);
	const int up = len == 2 && !strncmp(name, "..", len), stay = len == 1 && name[0] == '.';

	if (up)
		trust_leave(walk);
	else if (!stay)
		snprintf(walk->at + used, sizeof(walk->at) - used, "/%.*s", (int)len, name);
	memmove(walk->rest, name + len, strlen(name + len) + 1);
	return !up && !stay;
}

/* Is at most one name left? */
static int trust_at_last(const struct trust_walk *walk)
{
	const char *name = walk->rest + strspn(walk->rest, "/");

	name += strcspn(name, "/");
	return name[strspn(name, "/")] == '\0';
}

static int trust_go(struct trust_walk *walk, const char *path)
{
	int code;

	memset(walk->trust, 0, sizeof(*walk->trust));
	walk->path = path;
	trust_owners_read(&walk->owners);
	code = trust_begin(walk, path);
	if (!code)
		code = trust_look(walk, 0);
	while (!code && walk->rest[strspn(walk->rest, "/")]) {
		const int last = trust_at_last(walk);

		/* A stricter rule holds for the directory of the file. */
		if (last)
			code = trust_look(walk, 1);
		if (!code && trust_take_name(walk))
			code = trust_look(walk, last);
	}
	trust_owners_free(&walk->owners);
	return code;
}

int trust_check(const char *path, int is_plugin, struct trust *trust)
{
	struct trust_walk walk = {.trust = trust, .is_plugin = is_plugin};

	return trust_go(&walk, path);
}

int trust_check_links(const char *path, int fd)
{
	struct trust trust;
	struct trust_walk walk = {.trust = &trust, .links_only = 1};
	struct stat opened, judged;
	int code = trust_go(&walk, path);

	if (code)
		return code;
	if (fstat(fd, &opened) || lstat(walk.at[0] ? walk.at : "/", &judged))
		return trust_fail(path, errno);
	if (opened.st_dev != judged.st_dev || opened.st_ino != judged.st_ino)
		return error_set(COLL_ERR_PERMISSION,
				 "refused for safety: another directory came to '%.400s' while it "
				 "was opened; try again",
				 path);
	return COLL_SUCCESS;
}
