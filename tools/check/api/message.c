/* SPDX-License-Identifier: BSD-3-Clause */
/* message.c - send and receive: sizes, tags, order, any source, to oneself, outside the order. */
#include "check/api/api.h"

static const struct api_plan message_ring_plan = {.scenario = scenario_ring};
static const struct api_plan message_ping_pong_plan = {.scenario = scenario_ping_pong};
static const struct api_plan message_self_plan = {.scenario = scenario_self};
static const struct api_plan message_all_pairs_plan = {.scenario = scenario_all_pairs};
static const struct api_plan message_tags_plan = {.scenario = scenario_tags};
static const struct api_plan message_order_plan = {.scenario = scenario_order};
static const struct api_plan message_any_source_plan = {.scenario = scenario_any_source};
static const struct api_plan message_outside_plan = {.scenario = scenario_outside};
static const struct api_plan message_any_plan = {.scenario = scenario_any};

const struct check check_api_message[] = {
	{"message-ring", "messages of 0 bytes to 4 MiB are exchanged in a group, one beside each",
	 "coll.h, coll_send", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &message_ring_plan},
	{"message-ping-pong", "send and receive run in the order of issue", "coll.h, Order",
	 CHECK_API, .ways = CHECK_EITHER, .ranks_min = 2, .run = api_run,
	 .plan = &message_ping_pong_plan},
	{"message-self", "a rank sends to itself", "coll.h, coll_send", CHECK_API,
	 .ways = CHECK_EITHER, .run = api_run, .plan = &message_self_plan},
	{"message-all-pairs", "all ranks send to all ranks beside a collective",
	 "coll.h, coll_group_start", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &message_all_pairs_plan},
	{"message-tags", "tags up to 0xffffffff choose the message", "coll.h, coll_send", CHECK_API,
	 .ways = CHECK_EITHER, .needs = CHECK_TRANSPORT | CHECK_CARRIED, .ranks_min = 2,
	 .run = api_run, .plan = &message_tags_plan},
	{"message-order", "messages of one tag stay in order, whatever their size",
	 "coll.h, coll_send", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &message_order_plan},
	{"message-any-source", "a receive from any source takes the first message that comes",
	 "coll.h, coll_recv", CHECK_API, .ways = CHECK_EITHER,
	 .needs = CHECK_TRANSPORT | CHECK_CARRIED, .ranks_min = 2, .run = api_run,
	 .plan = &message_any_source_plan},
	{"message-outside",
	 "a message outside the order may be received before a collective and sent after",
	 "coll.h, coll_isend", CHECK_API, .ways = CHECK_EITHER,
	 .needs = CHECK_TRANSPORT | CHECK_CARRIED, .run = api_run, .plan = &message_outside_plan},
	{"message-any", "messages outside the order of any source, tag and length come in order",
	 "coll.h, coll_probe", CHECK_API, .ways = CHECK_EITHER,
	 .needs = CHECK_TRANSPORT | CHECK_CARRIED, .ranks_min = 2, .run = api_run,
	 .plan = &message_any_plan},
	{.name = NULL},
};
