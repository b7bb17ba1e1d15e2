/* SPDX-License-Identifier: BSD-3-Clause */
/* observer_first.c - an observer of ABI 1.0: it logs how many events of each phase it was told of. */
#include "observer_v1_0.h"

#include <stdio.h>
#include <stdlib.h>

struct frozen {
	const coll_observer_host_t *host;
	long count[3];
};

static coll_result_t frozen_open(const coll_observer_host_t *host, void **state, coll_error_t *err)
{
	struct frozen *f = calloc(1, sizeof(*f));

	if (!f || host->size < sizeof(*host)) {
		snprintf(err->text, sizeof(err->text), "the host table has %d bytes",
			 (int)host->size);
		free(f);
		return COLL_ERR_VERSION;
	}
	f->host = host;
	*state = f;
	return COLL_SUCCESS;
}

static void frozen_event(void *state, const coll_observed_t *event)
{
	struct frozen *f = state;

	if (event->what == COLL_OBSERVE_CALL && event->phase >= 0 && event->phase <= 2 &&
	    event->number == 1 && event->bytes == 4)
		f->count[event->phase]++;
}

static void frozen_close(void *state)
{
	struct frozen *f = state;
	char text[128];

	snprintf(text, sizeof(text), "%ld issued, %ld begun, %ld ended: %s", f->count[0],
		 f->count[1], f->count[2], f->host->kind_name(1));
	f->host->log(f->host, COLL_LOG_WARN, text);
	free(f);
}

COLL_OBSERVER_EXPORT const coll_observer_t coll_observer_v1 = {
	.size = sizeof(coll_observer_t),
	.abi_minor = 0,
	.wants = COLL_OBSERVE_CALL,
	.name = "first",
	.version = "1.0",
	.open = frozen_open,
	.event = frozen_event,
	.close = frozen_close,
};
