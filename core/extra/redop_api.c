/* SPDX-License-Identifier: BSD-3-Clause */
/* redop_api.c - the public functions for operations made at run time. */
#include "comm/lane.h"
#include "base/error.h"
#include "reduce/reduce.h"
#include "reduce/redop.h"

#include <stdlib.h>
#include <string.h>

/* A backend that reduces by itself makes its own operation, if it can. */
static int redop_api_make_native(struct lane *lane, const char *what, struct redop *redop,
				 const void *scalar, int32_t residence)
{
	const coll_backend_t *b = &lane->context->plugin->backend;
	const coll_native_t *native = lane_native(lane);
	coll_error_t err;
	int code;

	error_clear(&err);
	if (redop->premul_sum && native && native->op_create_pre_mul_sum && lane_native_ep(lane)) {
		code = native->op_create_pre_mul_sum(lane_native_ep(lane), &redop->native, scalar,
						     redop->dtype, residence, &err);
		redop->made = !code;
		if (code != COLL_ERR_UNSUPPORTED || !(lane_host(lane) || b->transport))
			return code ? error_take(code, &err) : COLL_SUCCESS;
	}
	if (b->transport || lane_host(lane))
		return COLL_SUCCESS;
	return error_set(COLL_ERR_UNSUPPORTED,
			 "%s: backend '%s' reduces by itself and cannot do this: scale or combine "
			 "the data outside the collective",
			 what, b->name);
}

/*
 * Changes the table, which both lanes share: adds the operation, or removes `number` if redop is NULL.  Returns -1 if
 * memory has run out.
 */
static int redop_api_change(struct lane *lane, const struct redop *redop, int number)
{
	struct comm *comm = lane->comm;
	struct lane *host = lane_host(lane);

	if (host)
		context_lock(host->context);
	if (!comm->redops)
		comm->redops = calloc(1, sizeof(*comm->redops));
	if (!redop)
		redop_remove(comm->redops, number);
	else
		number = comm->redops ? redop_add(comm->redops, redop) : -1;
	if (host)
		context_leave(host->context);
	return number;
}

static int redop_api_add(coll_comm_t handle, const char *what, struct redop *like,
			 const void *scalar, int32_t residence, coll_op_t *op)
{
	struct lane *lane = comm_enter(handle, what);
	int code, number = -1;

	if (!lane)
		return error_code();
	code = comm_error(lane);
	if (!code)
		code = redop_api_make_native(lane, what, like, scalar, residence);
	if (!code) {
		number = redop_api_change(lane, like, 0);
		if (number < 0)
			code = error_set(COLL_ERR_NO_MEMORY, "%s: no memory for another operation",
					 what);
		else
			*op = number;
	}
	comm_leave(lane);
	return code;
}

coll_result_t coll_red_op_create_pre_mul_sum(coll_op_t *op, const void *scalar, coll_dtype_t dtype,
					     int32_t residence, coll_comm_t comm)
{
	struct redop like = {.dtype = dtype, .op = COLL_SUM, .premul_sum = 1};
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
	if (!reduce_supports(dtype, COLL_SUM) || dtype == COLL_BOOL)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_red_op_create_pre_mul_sum: %s has no pre-multiplied sum",
				 coll_dtype_name(dtype));
	if (residence == COLL_SCALAR_HOST_IMMEDIATE)
		memcpy(like.value, scalar, coll_dtype_size(dtype));
	else
		like.scalar = scalar;
	return redop_api_add(comm, "coll_red_op_create_pre_mul_sum", &like, scalar, residence, op);
}

coll_result_t coll_red_op_create_user(coll_op_t *op, coll_user_op_fn fn, void *user,
				      int32_t commutative, coll_comm_t comm)
{
	struct redop like = {.fn = fn, .user = user, .ordered = !commutative};
	int number;

	if (!op || !fn)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_red_op_create_user: %s is NULL",
				 op ? "fn" : "op");
	if (comm)
		return redop_api_add(comm, "coll_red_op_create_user", &like, NULL, 0, op);
	number = redop_add_everywhere(&like);
	if (number < 0)
		return error_set(COLL_ERR_NO_MEMORY,
				 "coll_red_op_create_user: no memory for another operation");
	*op = number;
	return COLL_SUCCESS;
}

static int redop_api_destroy_native(struct lane *lane, const struct redop *redop)
{
	const coll_native_t *native = lane->context->plugin->backend.native;
	coll_error_t err;
	int code;

	error_clear(&err);
	if (!redop->made || !native->op_destroy || !lane_native_ep(lane))
		return COLL_SUCCESS;
	code = native->op_destroy(lane_native_ep(lane), redop->native, &err);
	return code ? error_take(code, &err) : COLL_SUCCESS;
}

coll_result_t coll_red_op_destroy(coll_op_t op, coll_comm_t handle)
{
	const struct redop *redop;
	struct lane *lane;
	int code = COLL_SUCCESS;

	if (!handle && op >= REDOP_EVERYWHERE)
		return redop_remove_everywhere(op)
			       ? COLL_SUCCESS
			       : error_set(COLL_ERR_INVALID_ARGUMENT,
					   "coll_red_op_destroy: op %d is destroyed", op);
	lane = comm_enter(handle, "coll_red_op_destroy");
	if (!lane)
		return error_code();
	redop = redop_made(lane->comm->redops, op);
	if (!redop) {
		code = error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_red_op_destroy: op %d was not made on this communicator, or "
				 "is destroyed",
				 op);
	} else {
		code = redop_api_destroy_native(lane, redop);
		(void)redop_api_change(lane, NULL, op);
	}
	comm_leave(lane);
	return code;
}
