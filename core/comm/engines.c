/* SPDX-License-Identifier: BSD-3-Clause */
/* engines.c - asks all engines of a communicator. */
#include "comm/engines.h"

void engines_mark(struct comm *comm)
{
	for (int i = 0; i < ENGINES; i++)
		if (comm->engine[i] && comm->engine[i]->mark)
			comm->engine[i]->mark(comm);
}

void engines_abort(struct comm *comm)
{
	for (int i = 0; i < ENGINES; i++)
		if (comm->engine[i] && comm->engine[i]->abort)
			comm->engine[i]->abort(comm);
}

void engines_check(struct comm *comm)
{
	for (int i = 0; i < ENGINES; i++)
		if (comm->engine[i] && comm->engine[i]->check)
			comm->engine[i]->check(comm);
}

void engines_group_begin(struct comm *comm)
{
	for (int i = 0; i < ENGINES; i++)
		if (comm->engine[i] && comm->engine[i]->group_begin)
			comm->engine[i]->group_begin(comm);
}

void engines_group_end(struct comm *comm)
{
	for (int i = 0; i < ENGINES; i++)
		if (comm->engine[i] && comm->engine[i]->group_end)
			comm->engine[i]->group_end(comm);
}
