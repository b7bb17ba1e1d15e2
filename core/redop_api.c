/* SPDX-License-Identifier: BSD-3-Clause */
/* redop_api.c - operations made at run time: each communicator keeps a table of its own. */
#include "comm.h"
#include "engine.h"
#include "error.h"
#include "reduce.h"

#include <stdlib.h>
#include <string.h>

/* The first value that is not a built-in operation; so many can be made. */
enum { REDOP_FIRST = 256, REDOP_MOST = 1 << 16 };

int redop_find(const struct comm *comm, const char *what, int dtype, int op, struct redop *redop)
{
	const struct redop *made;

	*redop = (struct redop){.dtype = dtype, .op = op};
	if (op < REDOP_FIRST && reduce_supports(dtype, op))
		return COLL_SUCCESS;
	if (op < REDOP_FIRST)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: op %d (%s) is not an operation on %s", what, op,
				 coll_op_name(op), coll_dtype_name(dtype));
	made = op - REDOP_FIRST < comm->nredops ? comm->redops[op - REDOP_FIRST] : NULL;
	if (!made)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: op %d was not made on this communicator, or is destroyed",
				 what, op);
	if (made->scaled && made->dtype != dtype)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: op %d was made for %s, not for %s",
				 what, op, coll_dtype_name(made->dtype), coll_dtype_name(dtype));
	*redop = *made;
	redop->dtype = dtype;
	return COLL_SUCCESS;
}

void redop_free_all(struct comm *comm)
{
	for (int i = 0; i < comm->nredops; i++)
		free(comm->redops[i]);
	free(comm->redops);
}

/* A free place in the table, or -1. */
static int redop_place(struct comm *comm)
{
	struct redop **bigger;
	int n = comm->nredops;

	for (int i = 0; i < n; i++)
		if (!comm->redops[i])
			return i;
	if (n == REDOP_MOST)
		return -1;
	bigger = realloc(comm->redops, ((size_t)n + 1) * sizeof(*bigger));
	if (!bigger)
		return -1;
	comm->redops = bigger;
	comm->redops[n] = NULL;
	comm->nredops = n + 1;
	return n;
}

/* A backend that reduces by itself makes its own operation, if it can. */
static int redop_make_native(struct comm *comm, const char *what, struct redop *redop,
			     const void *scalar, int32_t residence)
{
	const coll_backend_t *b = &comm->link->plugin->backend;
	coll_error_t err = error_blank();
	int code;

	if (redop->scaled && b->native && b->native->op_create_pre_mul_sum && comm->link->ep) {
		code = b->native->op_create_pre_mul_sum(comm->link->ep, &redop->native, scalar,
							redop->dtype, residence, &err);
		redop->made = !code;
		return code ? error_take(code, &err) : COLL_SUCCESS;
	}
	if (b->transport)
		return COLL_SUCCESS;
	return error_set(COLL_ERR_UNSUPPORTED,
			 "%s: backend '%s' reduces by itself and cannot do this: scale or combine "
			 "the data outside the collective",
			 what, b->name);
}

static int redop_add(coll_comm_t handle, const char *what, struct redop *like, const void *scalar,
		     int32_t residence, coll_op_t *op)
{
	struct comm *comm = comm_enter(handle, what);
	struct redop *made;
	int place, code;

	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	code = comm_error(comm);
	if (!code)
		code = redop_make_native(comm, what, like, scalar, residence);
	made = malloc(sizeof(*made));
	place = !code && made ? redop_place(comm) : -1;
	if (place >= 0) {
		*made = *like;
		comm->redops[place] = made;
		*op = REDOP_FIRST + place;
	} else {
		free(made);
	}
	comm_leave(comm);
	if (place >= 0 || code)
		return code;
	return error_set(COLL_ERR_NO_MEMORY, "%s: no memory for another operation", what);
}

coll_result_t coll_red_op_create_pre_mul_sum(coll_op_t *op, const void *scalar, coll_dtype_t dtype,
					     int32_t residence, coll_comm_t comm)
{
	struct redop like = {.dtype = dtype, .op = COLL_SUM, .scaled = 1};
	const char *wrong =
		!op                       ? "op is NULL"
		: !scalar                 ? "scalar is NULL"
		: !coll_dtype_size(dtype) ? "dtype is not a data type"
		: residence != COLL_SCALAR_DEVICE && residence != COLL_SCALAR_HOST_IMMEDIATE
			? "residence must be COLL_SCALAR_DEVICE or "
			  "COLL_SCALAR_HOST_IMMEDIATE"
			: NULL;

	if (wrong)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_red_op_create_pre_mul_sum: %s",
				 wrong);
	if (residence == COLL_SCALAR_HOST_IMMEDIATE)
		memcpy(like.value, scalar, coll_dtype_size(dtype));
	else
		like.scalar = scalar;
	return redop_add(comm, "coll_red_op_create_pre_mul_sum", &like, scalar, residence, op);
}

coll_result_t coll_red_op_create_user(coll_op_t *op, coll_user_op_fn fn, void *user,
				      int32_t commutative, coll_comm_t comm)
{
	struct redop like = {.fn = fn, .user = user, .ordered = !commutative};

	if (!op || !fn)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_red_op_create_user: %s is NULL",
				 op ? "fn" : "op");
	return redop_add(comm, "coll_red_op_create_user", &like, NULL, 0, op);
}

static int redop_destroy_native(struct comm *comm, const struct redop *redop)
{
	const coll_native_t *native = comm->link->plugin->backend.native;
	coll_error_t err = error_blank();
	int code;

	if (!redop->made || !native->op_destroy || !comm->link->ep)
		return COLL_SUCCESS;
	code = native->op_destroy(comm->link->ep, redop->native, &err);
	return code ? error_take(code, &err) : COLL_SUCCESS;
}

coll_result_t coll_red_op_destroy(coll_op_t op, coll_comm_t handle)
{
	struct comm *comm = comm_enter(handle, "coll_red_op_destroy");
	int i = op - REDOP_FIRST, code = COLL_SUCCESS;

	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	if (op < REDOP_FIRST || i >= comm->nredops || !comm->redops[i]) {
		code = error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_red_op_destroy: op %d was not made on this communicator, or "
				 "is destroyed",
				 op);
	} else {
		code = redop_destroy_native(comm, comm->redops[i]);
		free(comm->redops[i]); /* operations under way have a copy */
		comm->redops[i] = NULL;
	}
	comm_leave(comm);
	return code;
}
