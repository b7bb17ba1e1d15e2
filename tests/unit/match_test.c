/* SPDX-License-Identifier: BSD-3-Clause */
/* match_test.c - who sent what a receive from any source got; messages that nobody wants. */
#include "../../core/comm.h"

#include "../lib/tap.h"

#include <stdlib.h>

enum { SENDER = 3, LENGTH = 16 };

static int keep_all(void *user, uint32_t peer, const coll_header_t *header)
{
	(void)user;
	(void)peer;
	(void)header;
	return 0;
}

/* The message begins before (early) or after the receive is posted; its sender then fails. */
static void test_any_source(int early)
{
	coll_header_t header = {.tag = 5, .len = LENGTH};
	struct recv recv = {.tag = 5, .len = LENGTH, .peer = COLL_ANY_SOURCE};
	char dst[LENGTH];
	struct match m;
	coll_sink_t sink;

	recv.dst = dst;
	match_init(&m);
	m.judge = keep_all;
	if (!early)
		match_post(&m, &recv);
	match_arrive(&m, SENDER, &header, &sink);
	if (early)
		match_post(&m, &recv);
	match_arrived(&m, sink.cookie, COLL_ERR_PEER_LOST);
	ok(match_next_done(&m) == &recv, "the receive ends, posted %s",
	   early ? "after the message began" : "before");
	is_int(recv.status, COLL_ERR_PEER_LOST, "with an error");
	is_int(recv.peer, SENDER, "and says whose");
	match_free(&m);
}

/* However many communicators were freed since, what comes for one of them is dropped. */
static void test_freed(void)
{
	struct link *link = calloc(1, sizeof(*link));
	coll_header_t header = {0};
	int dropped = 0, kept = 0;

	if (!link)
		bail_out("no memory");
	for (uint32_t c = 0; c < 3000; c += 2)
		comm_note_freed(link, c);
	comm_note_freed(link, (1u << TAG_CONTEXT_BITS) - 1);
	for (uint32_t c = 0; c < 3000; c++) {
		header.tag = comm_tag_control(c);
		if (comm_judge(link, 0, &header))
			dropped++;
		else
			kept += c % 2;
	}
	is_int(dropped, 1500, "messages for freed communicators are dropped");
	is_int(kept, 1500, "those for communicators still to be made are kept");
	header.tag = comm_tag_control((1u << TAG_CONTEXT_BITS) - 1);
	is_int(comm_judge(link, 0, &header), 1, "the last context of all");
	for (int i = 0; i < LINK_FREED; i++)
		free(link->freed[i]);
	free(link);
}

int main(void)
{
	test_freed();
	test_any_source(0);
	test_any_source(1);
	return done_testing();
}
