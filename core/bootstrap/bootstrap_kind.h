/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_kind.h - the common part of the kinds of bootstrap, for the files that are one. */
#ifndef CORE_BOOTSTRAP_BOOTSTRAP_KIND_H
#define CORE_BOOTSTRAP_BOOTSTRAP_KIND_H

#include "base/clock.h"
#include "base/random.h"
#include "bootstrap/bootstrap.h"

/* Bytes of the message of a failure; interval in which a wait checks for an abort. */
enum { BOOTSTRAP_TEXT_SIZE = 1024, BOOTSTRAP_LOOK_MS = 100 };

/* The failure that a rank passes to an exchange in place of bytes, and that all ranks then return. */
struct bootstrap_failure {
	int code; /* COLL_SUCCESS: no rank has failed; BOOTSTRAP_REMOTE: see bootstrap_failed */
	int rank;
	char text[BOOTSTRAP_TEXT_SIZE];
};

struct bootstrap_kind {
	/*
	 * *failure: the failure of this rank; then in, out and len are not used.  If the exchange works,
	 * *failure becomes the failure that all ranks return.
	 */
	int (*exchange)(struct bootstrap *bootstrap, const void *in, void *out, size_t len,
			struct bootstrap_failure *failure, int64_t timeout_ms);
	int (*failure_waits)(struct bootstrap *bootstrap); /* NULL: it cannot see that */
	/* Frees the kind's own parts; accepts a half-made bootstrap. */
	void (*close)(struct bootstrap *bootstrap);
	/* The first failed exchange ends the bootstrap: later exchanges repeat its error. */
	int sticky;
};

/* First member of every kind's own struct. */
struct bootstrap {
	const struct bootstrap_kind *kind;
	int rank, nranks;
	struct bootstrap_peer *peers; /* the facts about nranks processes */
	int met;                      /* `peers` is complete */
	uint8_t key[BOOTSTRAP_KEY_SIZE];
	int key_is_secret;
	const _Atomic int *aborted; /* non-zero: the waits must end; or NULL */
	int (*guard)(void *user);   /* see bootstrap_guard; or NULL */
	void *guard_user;
	int watched; /* the rank in the text of the abort: the number in the parent, if there is one */
	int failed;
	char failure[BOOTSTRAP_TEXT_SIZE];
	int rank_failed; /* the last exchange returned the failure of a rank */
};

/* Zeroed memory of `size` bytes that begins with a struct bootstrap; checks rank and nranks. */
int bootstrap_new(struct bootstrap **bootstrap, size_t size, const struct bootstrap_kind *kind,
		  int rank, int nranks);
/* Exchanges the facts about each rank's process: the first exchange of every bootstrap. */
int bootstrap_meet(struct bootstrap *bootstrap, int64_t timeout_ms);

/* Facts about the calling process. */
int bootstrap_self(struct bootstrap_peer *peer);
/* When a wait that begins now is to be told in the log; INT64_MAX: never. */
int64_t bootstrap_stall_time(void);
/* "2, 5-7" for the ranks whose status[] is 0; ends in "..." if the buffer is too small.  Returns their number. */
int bootstrap_list_missing(char *buf, size_t size, const uint8_t *status, int nranks);
/* COLL_ERR_TIMEOUT with the names of the ranks whose status[] is 0.  note: text to append, or "". */
int bootstrap_timeout_error(const uint8_t *status, int nranks, int64_t timeout_ms,
			    const char *note);

/* "60", "0.3": seconds for messages, with two digits at most. */
const char *bootstrap_seconds(int64_t ms, char buf[24]);

/* COLL_ERR_ABORTED, with a text, if the watched communicator is aborted; else COLL_SUCCESS, or the guard's error. */
int bootstrap_check_aborted(const struct bootstrap *bootstrap);
/* The end of a wait: the deadline, or earlier, so that the caller checks for an abort. */
int64_t bootstrap_look(const struct bootstrap *bootstrap, int64_t deadline);
/* The code that the other ranks get for this rank's failure. */
int bootstrap_remote_code(int code);
/* Returns the code of the failure, with its text. */
int bootstrap_failed(const struct bootstrap_failure *failure);
/*
 * The error of an exchange that has failed with `code` and error_text(), although a rank has come with a failure.  Ranks may
 * be missing because of that failure.  If the failure blames other ranks, these may be the missing ones.
 */
int bootstrap_failed_too(const struct bootstrap_failure *failure, int code);

/* Keeps in *failure the failure that all ranks return, of the two. text: "" if there is none. */
void bootstrap_merge_failure(struct bootstrap_failure *failure, int rank, int code,
			     const char *text);

#endif
