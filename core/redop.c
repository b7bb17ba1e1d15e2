/* SPDX-License-Identifier: BSD-3-Clause */
/* redop.c - operations made at run time. */
#include "comm.h"
#include "error.h"

static int redop_unsupported(coll_comm_t handle, const char *what)
{
	struct comm *comm = comm_enter(handle, what);

	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	comm_leave(comm);
	return error_set(
		COLL_ERR_UNSUPPORTED,
		"%s is not implemented yet: scale or combine the data outside the collective",
		what);
}

coll_result_t coll_red_op_create_pre_mul_sum(coll_op_t *op, const void *scalar, coll_dtype_t dtype,
					     int32_t residence, coll_comm_t comm)
{
	(void)op;
	(void)scalar;
	(void)dtype;
	(void)residence;
	return redop_unsupported(comm, "coll_red_op_create_pre_mul_sum");
}

coll_result_t coll_red_op_create_user(coll_op_t *op, coll_user_op_fn fn, void *user,
				      int32_t commutative, coll_comm_t comm)
{
	(void)op;
	(void)fn;
	(void)user;
	(void)commutative;
	return redop_unsupported(comm, "coll_red_op_create_user");
}

coll_result_t coll_red_op_destroy(coll_op_t op, coll_comm_t comm)
{
	(void)op;
	return redop_unsupported(comm, "coll_red_op_destroy");
}
