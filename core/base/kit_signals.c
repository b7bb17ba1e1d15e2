/* SPDX-License-Identifier: BSD-3-Clause */
/* kit_signals.c - restores the application's signal handlers after a library has been loaded. */
#include "base/kit_signals.h"

#include <stdlib.h>

void kit_signals_note(struct kit_signals *s)
{
	for (int i = 1; i < KIT_SIGNALS; i++)
		s->known[i] = !sigaction(i, NULL, &s->action[i]);
}

void kit_signals_restore(const struct kit_signals *s)
{
	struct sigaction now;

	if (secure_getenv("UCX_HANDLE_ERRORS") || secure_getenv("UCX_ERROR_SIGNALS") ||
	    secure_getenv("UCX_DEBUG_SIGNO"))
		return;
	for (int i = 1; i < KIT_SIGNALS; i++)
		if (s->known[i] && !sigaction(i, NULL, &now) &&
		    now.sa_handler != s->action[i].sa_handler)
			sigaction(i, &s->action[i], NULL);
}
