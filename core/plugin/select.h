/* SPDX-License-Identifier: BSD-3-Clause */
/* select.h - which backend: the choice of this process alone, and the choice of all ranks together. */
#ifndef CORE_PLUGIN_SELECT_H
#define CORE_PLUGIN_SELECT_H

#include "plugin/plugin.h"
#include "bootstrap/bootstrap.h"

/*
 * The choice of this process alone, as if all ranks were like it (used by coll_info).  in_process:
 * all ranks live in this process.  On success *chosen is the plugin; otherwise the error says
 * why none could be chosen.  If `why` is not NULL it has list->count entries and gets one message for each plugin.
 */
int select_local(const struct config *config, const struct plugin_list *list, int in_process,
		 const struct plugin **chosen, char (*why)[768]);

/*
 * May a backend of that name be taken here?  PLUGIN_RULED_OUT if `backend` lists others, or leaves it
 * out.
 */
int select_wants(const struct config *config, const char *name);

/*
 * Does `backend` exclude a name that no plugin has ("^tpc")?  Then 1 and a message about it.
 */
int select_excludes_unknown(const struct config *config, const struct plugin_list *list, char *text,
			    size_t size);

/* "backend 'x' does not exist; ..." with those that do, as COLL_ERR_NOT_FOUND. */
int select_unknown(const struct plugin_list *list, const char *name);

/*
 * Collective over boot: the best backend usable on every rank.  local_code/error_text(): if this
 * rank has already failed (bad config, say), it takes part so that the others learn it: pass the
 * code, else COLL_SUCCESS.  Every rank returns the same backend, or an error that names rank and
 * reason.  A backend that any rank named and cannot use is an error on all ranks.
 */
int select_agree(struct bootstrap *bootstrap, const struct config *config,
		 const struct plugin_list *list, int in_process, int local_code,
		 const struct plugin **chosen);

#endif
