/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * select.h - chooses the backend: for this process alone, or for all ranks together.
 *
 * Each rank finds the first thing that keeps it from each backend (select_objection).  The ranks exchange these answers,
 * and every rank computes the same choice from them: the first backend that all given lists name, which every rank must
 * be able to use; without a list the first by rank 0's priorities to which no rank objects.
 *
 * Without a list a rank probes its backends by priority until one is usable, and tells which backends it has not probed.  If
 * the ranks choose such a backend, they probe it and choose again.
 */
#ifndef CORE_PLUGIN_SELECT_H
#define CORE_PLUGIN_SELECT_H

#include "plugin/plugin.h"
#include "bootstrap/bootstrap.h"

/*
 * The choice of this process alone, as if all ranks were like it (used by coll_info).  in_process:
 * all ranks live in this process.  On success *chosen is the plugin; otherwise the error says
 * why none could be chosen.  If `why` is not NULL it has list->count entries and gets one message for each
 * plugin.
 */
int select_local(const struct config *config, const struct plugin_list *list, int in_process,
		 const struct plugin **chosen, char (*why)[768]);

/* Returns 1 and a message if the option `backend` excludes a name that no plugin has ("^tpc"). */
int select_excludes_unknown(const struct config *config, const struct plugin_list *list, char *text,
			    size_t size);

/* Returns COLL_ERR_NOT_FOUND with "backend 'x' does not exist; ..." and the existing names. */
int select_unknown(const struct plugin_list *list, const char *name);

/*
 * Collective over the bootstrap: the ranks probe the backends that they may choose, and choose the best one that every
 * rank can use.  local_code is COLL_SUCCESS, or, with error_text(), the earlier failure of this rank (a bad
 * configuration, say), which takes part so that all ranks learn of the failure.  Every rank returns the same backend, or
 * an error that names rank and reason.  A backend that any rank named and cannot use is an error on all ranks.
 * *by_name: 1 if a rank named the backend, 0 if its priority decided.
 */
int select_agree(struct bootstrap *bootstrap, const struct config *config, struct plugin_list *list,
		 int in_process, int local_code, const struct plugin **chosen, int *by_name);

/* The option `companion`: the transport beside a backend that has none, or that asks for one (COLL_BACKEND_COMPANION). */
struct companion_wish {
	char name[16];
	int32_t named; /* 1: the user has set it; then a companion that a rank cannot use is an error */
	int32_t wanted; /* 1: the backend is to have the companion */
};

/*
 * Collective: sets *wish to the companion that all ranks are to use beside the backend of `plugin`, as rank 0 has the option.  To
 * be called before an endpoint opens: a companion whose plugin was ruled out is opened now, and declares its options in config.
 */
int select_companion_wish(struct bootstrap *bootstrap, struct config *config,
			  struct plugin_list *list, const struct plugin *plugin,
			  struct companion_wish *wish);
/* Collective: the companion if every rank can use it, or NULL for none. */
int select_companion(struct bootstrap *bootstrap, const struct config *config,
		     struct plugin_list *list, const struct companion_wish *wish,
		     const struct plugin **chosen);

/*
 * Refuses the chosen backend, which some rank could not open, as error_text() says.  The next choice leaves it out.
 * All ranks call this function.
 */
void select_give_up(struct plugin_list *list, const struct plugin *chosen, int code);

#endif
