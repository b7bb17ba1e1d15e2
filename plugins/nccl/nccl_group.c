/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_group.c - a thread's open group.  NCCL begins the calls of a group at its outermost ncclGroupEnd, on all
 * endpoints at once.
 */
#include "nccl.h"

static _Thread_local struct {
	int depth;
	struct nccl *members;
} nccl_group;

int nccl_group_open(void)
{
	return nccl_group.depth > 0;
}

int nccl_group_has(const struct nccl *n)
{
	const struct nccl *m = nccl_group.members;

	while (m && m != n)
		m = m->next;
	return m != NULL;
}

int32_t nccl_group_begin(void *ep, coll_error_t *err)
{
	struct nccl *n = ep;
	int pushed, result;
	int32_t code = nccl_begin(n, &pushed, err);

	if (code)
		return code;
	result = nccl_lib.ncclGroupStart();
	code = nccl_record_result(n, result, "ncclGroupStart", err);
	if (!code) {
		nccl_group.depth++;
		n->in_group = 1;
		n->on_caller_stream = 0;
		n->depends_on_own = 0;
		n->next = nccl_group.members;
		nccl_group.members = n;
	}
	nccl_end(n, pushed);
	return code;
}

/* Ends the group for one endpoint; `result` is that of ncclGroupEnd. */
static int32_t nccl_group_ended(struct nccl *n, int result, coll_error_t *err)
{
	int pushed;
	int32_t code;

	pthread_mutex_lock(&n->lock);
	n->in_group = 0;
	for (struct nccl_scratch *s = n->scratch; s; s = s->next)
		s->in_group = 0;
	code = n->comm ? nccl_record_result(n, result, "ncclGroupEnd", err) : COLL_SUCCESS;
	if (nccl_enter(n->context, &pushed, NULL)) {
		pthread_mutex_unlock(&n->lock);
		return code;
	}
	/* The caller's next work on its own stream must follow the group. */
	if (!code && n->on_caller_stream)
		code = nccl_wait_comm_ready(n, n->host, n->host->timeout_ms, err);
	if (!code && n->depends_on_own)
		code = nccl_stream_dependency(n, n->stream, CUDA_PER_THREAD_STREAM, err);
	if (atomic_load(&n->aborted))
		nccl_stop(n);
	nccl_end(n, pushed);
	return code;
}

int32_t nccl_group_end(void *ep, coll_error_t *err)
{
	struct nccl *n = ep, *next;
	int32_t code = COLL_SUCCESS, one;
	int pushed = 0, entered, result;

	if (!nccl_group.depth) /* ncclGroupStart failed */
		return COLL_SUCCESS;
	entered = !nccl_enter(n->context, &pushed, NULL);
	result = nccl_lib.ncclGroupEnd();
	if (entered)
		nccl_leave(pushed);
	if (--nccl_group.depth)
		return COLL_SUCCESS;
	for (n = nccl_group.members, nccl_group.members = NULL; n; n = next) {
		next = n->next;
		one = nccl_group_ended(n, result, code ? NULL : err);
		code = code ? code : one;
	}
	return code;
}
