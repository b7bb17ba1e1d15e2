/* SPDX-License-Identifier: BSD-3-Clause */
/* star_inner.c - the exchange of a rank in the middle of the tree, which has a parent and children. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "bootstrap/star.h"
#include "base/error.h"

/* Tells the parent, once in a round, which ranks of its subtree this rank has heard from. */
static int inner_overdue(struct star *t)
{
	const struct star_frame head = {.type = STAR_HEARD,
					.len = (uint64_t)t->bootstrap.nranks,
					.timeout_ms = star_timeout(t->timeout_ms)};

	if (t->asked == 1) {
		t->asked = 2;
		return star_send_up(t, head, t->heard, STAR_GRACE_MS);
	}
	return clock_remaining(t->deadline + star_grace(t)) > 0 ? 0
								: star_no_answer(t, t->timeout_ms);
}

/* Sends the pieces of the whole subtree, or the failure of one of its ranks. */
static int inner_send_piece(struct star *t, const struct bootstrap_failure *failure)
{
	struct star_frame head = {.type = failure->code ? STAR_FAILED : STAR_PIECE,
				  .len = (uint64_t)t->nentries * (sizeof(uint32_t) + t->len),
				  .timeout_ms = star_timeout(clock_remaining(t->deadline)),
				  .code = failure->code,
				  .rank = (uint32_t)failure->rank};

	t->spoke = 1;
	if (failure->code)
		head.len = strlen(failure->text);
	return star_send_up(t, head, failure->code ? (const void *)failure->text : t->entries,
			    clock_remaining(t->deadline) + star_grace(t));
}

static int inner_await_answer(struct star *t)
{
	const int64_t end = t->deadline + star_grace(t);
	int code = 0;

	while (code == 0 && !t->answered) {
		code = star_step(t, t->asked ? end : t->deadline);
		if (code || t->answered)
			break;
		if (!t->asked && clock_remaining(t->deadline) == 0)
			star_ask(t);
		if (clock_remaining(end) == 0)
			code = star_no_answer(t, t->timeout_ms);
	}
	return code;
}

static int inner_run_round(struct star *t, const void *in, size_t len,
			   struct bootstrap_failure *failure)
{
	int code;

	star_children_begin(t, in, len);
	code = star_gather(t, inner_overdue);
	if (code == 0)
		code = inner_send_piece(t, failure);
	if (code == 0)
		code = inner_await_answer(t);
	if (code)
		return code;
	/* The others have the same time for the answer as for their pieces. */
	t->deadline = clock_deadline(t->timeout_ms);
	if (t->stream.head.type == STAR_TABLE)
		return star_scatter(t, t->table, t->table_len, 0);
	return star_scatter(t, failure->text, strlen(failure->text), failure->code);
}

int star_inner_exchange(struct star *t, const void *in, void *out, size_t len,
			struct bootstrap_failure *failure, int64_t timeout_ms)
{
	const int size = star_tree_size(t->seat, t->bootstrap.nranks);
	int code;

	t->round++;
	t->timeout_ms = timeout_ms;
	t->deadline = clock_deadline(timeout_ms);
	t->entries = malloc((size_t)size * (sizeof(uint32_t) + len));
	star_await_answer(t, out, (size_t)t->bootstrap.nranks * len, failure);
	code = t->entries != NULL ? inner_run_round(t, in, len, failure)
				  : error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", size);
	free(t->entries);
	t->entries = NULL;
	if (code == 0)
		return 0;
	if (!t->ended)
		code = bootstrap_failed_too(failure, code);
	/* The parent first: it tells all ranks that are not below this one. */
	if (!t->ended)
		star_tell_parent(t, STAR_FAILURE, bootstrap_remote_code(code), error_text());
	code = star_fail(t, code);
	shutdown(t->fd, SHUT_RDWR);
	return code;
}
