/* SPDX-License-Identifier: BSD-3-Clause */
/* engines.c - asks all engines of a communicator. */
#include "comm/engines.h"

void engines_mark(struct lane *lane)
{
	for (int i = 0; i < ENGINES; i++)
		if (lane->engine[i] && lane->engine[i]->mark)
			lane->engine[i]->mark(lane);
}

void engines_abort(struct lane *lane)
{
	for (int i = 0; i < ENGINES; i++)
		if (lane->engine[i] && lane->engine[i]->abort)
			lane->engine[i]->abort(lane);
}

void engines_check(struct lane *lane)
{
	for (int i = 0; i < ENGINES; i++)
		if (lane->engine[i] && lane->engine[i]->check)
			lane->engine[i]->check(lane);
}

void engines_group_begin(struct lane *lane)
{
	for (int i = 0; i < ENGINES; i++)
		if (lane->engine[i] && lane->engine[i]->group_begin)
			lane->engine[i]->group_begin(lane);
}

void engines_group_end(struct lane *lane)
{
	for (int i = 0; i < ENGINES; i++)
		if (lane->engine[i] && lane->engine[i]->group_end)
			lane->engine[i]->group_end(lane);
}
