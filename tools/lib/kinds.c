/* SPDX-License-Identifier: BSD-3-Clause */
/* kinds.c - the kinds of call, out of the library's table. */
#include <string.h>
#include "base/tables.h"
#include "lib/kinds.h"

struct kinds_row {
	const char *name;
	int send, recv; /* KIND_NONE, KIND_ONE, KIND_EACH */
	int traits;
};

#define KINDS_ROW(number, name, send, recv, traits, list) [number] = {#name, send, recv, traits},

static const struct kinds_row kinds_rows[] = {KINDS(KINDS_ROW)};

enum { KINDS_COUNT = sizeof(kinds_rows) / sizeof(kinds_rows[0]) };

static const struct kinds_row *kinds_at(int32_t kind)
{
	static const struct kinds_row none = {.name = "?"};

	return kind > 0 && kind < KINDS_COUNT && kinds_rows[kind].name ? &kinds_rows[kind] : &none;
}

int32_t kinds_find(const char *name)
{
	for (int32_t kind = 1; kind < KINDS_COUNT; kind++)
		if (kinds_rows[kind].name && strcmp(kinds_rows[kind].name, name) == 0)
			return kind;
	return 0;
}

const char *kinds_name(int32_t kind)
{
	return kinds_at(kind)->name;
}

int kinds_is_collective(int32_t kind)
{
	const struct kinds_row *row = kinds_at(kind);

	return row->name[0] != '?' && !(row->traits & KIND_P2P);
}

int kinds_is_v(int32_t kind)
{
	return (kinds_at(kind)->traits & (KIND_SENDCOUNTS | KIND_RECVCOUNTS)) != 0;
}

int kinds_adds_parts(int32_t kind)
{
	return kinds_is_v(kind) && kinds_at(kind)->send == KIND_ONE;
}

int kinds_is_mutual(int32_t kind)
{
	const int one_sided = KIND_ROOT_SENDS | KIND_ROOT_RECEIVES | KIND_P2P | KIND_SCAN;

	return kinds_is_collective(kind) && !(kinds_at(kind)->traits & one_sided);
}

int kinds_is_barrier(int32_t kind)
{
	return kinds_is_mutual(kind) && !kinds_is_v(kind);
}

/* The buffers of v-forms hold the parts of all ranks already. */
static int kinds_has_parts(const struct kinds_row *row)
{
	return row->send == KIND_EACH || row->recv == KIND_EACH;
}

double kinds_bus_size(int32_t kind, int nranks, double bytes)
{
	return kinds_has_parts(kinds_at(kind)) && !kinds_is_v(kind) ? bytes * nranks : bytes;
}

/* The formulas come from nccl-tests, doc/PERFORMANCE.md; for gather and scatter from its source. */
double kinds_bus_factor(int32_t kind, int nranks)
{
	const double n = nranks;

	if (kind == COLL_KIND_ALLREDUCE)
		return 2 * (n - 1) / n;
	return kinds_has_parts(kinds_at(kind)) ? (n - 1) / n : 1;
}
