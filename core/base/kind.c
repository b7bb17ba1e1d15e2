/* SPDX-License-Identifier: BSD-3-Clause */
/* kind.c - the table of the kinds of operation. */
#include "base/kind.h"

#include <coll/backend.h>

static const struct kind kind_table[] = {
	[COLL_KIND_ALLREDUCE] = {"allreduce", KIND_ONE, KIND_ONE, 0, 0, 0, 1},
	[COLL_KIND_BROADCAST] = {"broadcast", KIND_ONE, KIND_ONE, 1, 0, 1, 0},
	[COLL_KIND_REDUCE] = {"reduce", KIND_ONE, KIND_ONE, 0, 1, 1, 1},
	[COLL_KIND_ALLGATHER] = {"allgather", KIND_ONE, KIND_EACH, 0, 0, 0, 0},
	[COLL_KIND_REDUCE_SCATTER] = {"reduce_scatter", KIND_EACH, KIND_ONE, 0, 0, 0, 1},
	[COLL_KIND_ALLTOALL] = {"alltoall", KIND_EACH, KIND_EACH, 0, 0, 0, 0},
	[COLL_KIND_GATHER] = {"gather", KIND_ONE, KIND_EACH, 0, 1, 1, 0},
	[COLL_KIND_SCATTER] = {"scatter", KIND_EACH, KIND_ONE, 1, 0, 1, 0},
	[COLL_KIND_ALLGATHERV] = {"allgatherv", KIND_ONE, KIND_EACH, 0, 0, 0, 0},
	[COLL_KIND_REDUCE_SCATTERV] = {"reduce_scatterv", KIND_EACH, KIND_ONE, 0, 0, 0, 1},
	[COLL_KIND_ALLTOALLV] = {"alltoallv", KIND_EACH, KIND_EACH, 0, 0, 0, 0},
	[COLL_KIND_GATHERV] = {"gatherv", KIND_ONE, KIND_EACH, 0, 1, 1, 0},
	[COLL_KIND_SCATTERV] = {"scatterv", KIND_EACH, KIND_ONE, 1, 0, 1, 0},
	[COLL_KIND_BARRIER] = {"barrier", KIND_NONE, KIND_NONE, 0, 0, 0, 0},
	[COLL_KIND_SEND] = {"send", KIND_ONE, KIND_NONE, 0, 0, 0, 0},
	[COLL_KIND_RECV] = {"recv", KIND_NONE, KIND_ONE, 0, 0, 0, 0},
	[COLL_KIND_SCAN] = {"scan", KIND_ONE, KIND_ONE, 0, 0, 0, 1},
	[COLL_KIND_EXSCAN] = {"exscan", KIND_ONE, KIND_ONE, 0, 0, 0, 1},
};

/* The forms with lists of buffers, by the v-form that serves them. */
static const struct kind kind_list_table[] = {
	[COLL_KIND_ALLGATHERV] = {"allgather_list", KIND_ONE, KIND_EACH, 0, 0, 0, 0},
	[COLL_KIND_REDUCE_SCATTERV] = {"reduce_scatter_list", KIND_EACH, KIND_ONE, 0, 0, 0, 1},
	[COLL_KIND_ALLTOALLV] = {"alltoall_list", KIND_EACH, KIND_EACH, 0, 0, 0, 0},
	[COLL_KIND_GATHERV] = {"gather_list", KIND_ONE, KIND_EACH, 0, 1, 1, 0},
	[COLL_KIND_SCATTERV] = {"scatter_list", KIND_EACH, KIND_ONE, 1, 0, 1, 0},
};

int kind_is_valid(int kind)
{
	return kind >= COLL_KIND_ALLREDUCE && kind <= KIND_LAST;
}

const struct kind *kind_at(int kind)
{
	return &kind_table[kind];
}

const struct kind *kind_list_at(int kind)
{
	return &kind_list_table[kind];
}

const char *kind_name(int kind)
{
	return kind_is_valid(kind) ? kind_table[kind].name : "?";
}

const char *coll_kind_name(int32_t kind)
{
	return kind_name(kind);
}

int kind_has_root(int kind)
{
	return kind_is_valid(kind) && kind_table[kind].has_root;
}

int kind_reduces(int kind)
{
	return kind_is_valid(kind) && kind_table[kind].reduces;
}

int kind_is_v(int kind)
{
	return kind >= COLL_KIND_ALLGATHERV && kind <= COLL_KIND_SCATTERV;
}
