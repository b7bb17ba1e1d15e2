/* SPDX-License-Identifier: BSD-3-Clause */
/* info.h - the object behind a coll_info_t: info.c makes it, info_read.c has the functions that read it. */
#ifndef CORE_INTROSPECT_INFO_H
#define CORE_INTROSPECT_INFO_H

#include "algorithm/selection.h"
#include "plugin/select.h"

struct coll_info {
	struct config *config;
	struct selection selection;
	struct plugin_list *plugins; /* NULL if there was no memory for the list */
	const struct plugin *chosen;
	char (*why)[768]; /* for each plugin */
	char (*description)
		[1024]; /* for each plugin: the description and the result of its info function */
	char unknown[768]; /* a further diagnostic, or "" */
	int code;
	char sentence[2048];
};

/* The rules of a selection, kind by kind, in order, as introspect.h describes them (info_rules.c). */
int info_rule_count(const struct selection *selection);
int info_rule_describe(const struct config *config, const struct selection *selection, int index,
		       coll_rule_info_t *out);
int info_rule_reach(const struct selection *selection, int index, int nranks, int nnodes,
		    int32_t *reach, const char **why);

#endif
