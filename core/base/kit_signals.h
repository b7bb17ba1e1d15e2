/* SPDX-License-Identifier: BSD-3-Clause */
/* kit_signals.h - for plugins that open UCX: it installs handlers of signals, which print backtraces, when it is loaded. */
#ifndef CORE_BASE_KIT_SIGNALS_H
#define CORE_BASE_KIT_SIGNALS_H

#include <signal.h>

enum { KIT_SIGNALS = 64 };

struct kit_signals {
	struct sigaction action[KIT_SIGNALS];
	int known[KIT_SIGNALS];
};

/* Notes the handlers of all signals. */
void kit_signals_note(struct kit_signals *s);
/* Restores the noted handlers, unless the user has asked UCX for its own. */
void kit_signals_restore(const struct kit_signals *s);

#endif
