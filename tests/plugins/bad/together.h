/* SPDX-License-Identifier: BSD-3-Clause */
/* together.h - a backend that keeps the messages of send_more back, for bad plugins that do so wrongly. */
#include "uds.h"

enum { TOGETHER_ROOM = 256 };

struct together {
	int n;
	coll_send_t *send[TOGETHER_ROOM];
};

/* Sends the messages that are kept back. */
BAD_FN void together_out(void *ep)
{
	struct together *kept = ((struct bad *)ep)->memory;
	coll_error_t err;

	for (int i = 0; kept && i < kept->n; i++)
		bad_send(ep, kept->send[i], &err);
	if (kept)
		kept->n = 0;
}

BAD_FN int32_t together_send_more(void *ep, coll_send_t *send, coll_error_t *err)
{
	struct bad *b = ep;
	struct together *kept = b->memory;

	if (!kept)
		kept = b->memory = calloc(1, sizeof(*kept));
	if (!kept)
		return err->code = COLL_ERR_NO_MEMORY;
	if (kept->n == TOGETHER_ROOM)
		together_out(ep);
	kept->send[kept->n++] = send;
	return COLL_SUCCESS;
}

BAD_FN int32_t together_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	together_out(ep);
	return bad_send(ep, send, err);
}

BAD_FN int32_t together_progress(void *ep)
{
	together_out(ep);
	return bad_progress(ep);
}
