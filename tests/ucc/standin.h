/* SPDX-License-Identifier: BSD-3-Clause */
/* standin.h - a stand-in for UCC, whose collectives end by themselves: the test sets its behaviour and reads which functions the plugin called. */
#ifndef TESTS_UCC_STANDIN_H
#define TESTS_UCC_STANDIN_H

#include "../../plugins/ucc/ucc_api.h"

#include <stdatomic.h>

/* The library exports it as `ucc_standin`. */
struct ucc_standin {
	/* What the test sets. */
	_Atomic int
		needs_moves; /* a collective posted now ends after so many calls of ucc_context_progress; -1: never */
	_Atomic int makes_teams; /* 0: no team gets ready */
	_Atomic int makes_contexts;
	_Atomic int warns;      /* ucc_context_create writes a warning */
	_Atomic int takes_tune; /* the setting TUNE is known */
	/* What the stand-in counts. */
	_Atomic int moves;       /* calls of ucc_context_progress */
	_Atomic int cancellable; /* calls in threads that could be cancelled */
	_Atomic int collectives; /* calls of ucc_collective_init */
	_Atomic int contexts_ended;
	_Atomic int ended_early; /* contexts that were ended while UCC made their teams */
	_Atomic int preconnect;  /* the setting PRECONNECT; -1: none */
};

struct ucc_team {
	struct ucc_context *context;
	_Atomic int collectives; /* calls of ucc_collective_init */
};

/* The plugin opens the same file as the test, so both have one stand-in. */
struct ucc_standin *standin_open(void);

#endif
