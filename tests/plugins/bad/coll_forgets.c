/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: together */
/* coll_forgets.c - flush forgets the oldest message that send_more keeps back. */
#include "together.h"

/* Once, and completes it: the check shall wait for the message, not for its status. */
static void forgets_flush(void *ep)
{
	struct together *kept = ((struct bad *)ep)->memory;

	if (kept && kept->n > 1 && !((struct bad *)ep)->mark[0]++) {
		kept->send[0]->status = COLL_SUCCESS;
		memmove(kept->send, kept->send + 1, (size_t)--kept->n * sizeof(kept->send[0]));
	}
	together_out(ep);
}

#define BAD_NAME      "forgets"
#define BAD_SEND      together_send
#define BAD_PROGRESS  together_progress
#define BAD_SEND_MORE together_send_more
#define BAD_FLUSH     forgets_flush
#include "table.h"
