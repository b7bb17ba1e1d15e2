/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launch_store.h - the key-value store of a launcher, through which rank 0 tells the other ranks where it is; for
 * core/bootstrap/ only.
 */
#ifndef CORE_BOOTSTRAP_LAUNCH_STORE_H
#define CORE_BOOTSTRAP_LAUNCH_STORE_H

#include <stddef.h>
#include <stdint.h>

/*
 * The functions return COLL_SUCCESS or a code with error_text().  Each blocks at most for its timeout; connect and
 * put ask only the launcher's daemon on this host.
 */
struct launch_store {
	const char *name; /* of the protocol */
	/* Must come before the others; may be called again. */
	int (*connect)(void);
	/* Stores a text. */
	int (*put)(const char *key, const char *text);
	/*
	 * Waits for all ranks of the job, and brings the texts that they have stored to this host.  At the time
	 * stall_at it calls launch_store_stalled(), and waits on.
	 */
	int (*fence)(int64_t timeout_ms, int64_t stall_at);
	/* Reads the text that rank 0 stored before the fence. */
	int (*get)(const char *key, char *text, size_t size, int64_t timeout_ms);
};

extern const struct launch_store pmix_store; /* pmix.c */
extern const struct launch_store pmi_store;  /* pmi.c */

/* Logs that ranks have not come to the fence. */
void launch_store_stalled(const struct launch_store *store);
/* COLL_ERR_TIMEOUT for a fence whose time is over. */
int launch_store_timed_out(const struct launch_store *store, int64_t timeout_ms);

#endif
