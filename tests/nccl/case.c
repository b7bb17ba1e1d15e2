/* SPDX-License-Identifier: BSD-3-Clause */
/* case.c - the buffers, the call and the comparison. */
#include "case.h"

/* Makes the operation if it is not a built-in one. */
static int case_make_op(const struct nccl_case *c, coll_op_t *made, void *scalar)
{
	const struct oracle_format *f = oracle_format(c->dtype);
	uint64_t code = oracle_code(f, oracle_scale(f, c->r->rank));
	int on_device = c->op == CASE_SCALED_DEVICE;

	*made = c->op;
	if (c->op < CASE_SCALED_HOST)
		return 1;
	device_move(c->r->rank % NCCL_DEVICES, scalar, &code, sizeof(code));
	return rank_did(c->r,
			coll_red_op_create_pre_mul_sum(
				made, on_device ? scalar : (void *)&code, c->dtype,
				on_device ? COLL_SCALAR_DEVICE : COLL_SCALAR_HOST_IMMEDIATE,
				c->r->comm),
			"red_op_create");
}

int case_holds(struct nccl_case c)
{
	int device = c.r->rank % NCCL_DEVICES, good;
	const struct oracle_case like = {.kind = c.kind,
					 .dtype = c.dtype,
					 .op = c.op < CASE_SCALED_HOST ? c.op : ORACLE_SCALED,
					 .root = c.root,
					 .place = c.in_place,
					 .gaps = 1,
					 .list = c.list,
					 .aligned = !c.unaligned,
					 .near = 1,
					 .count = c.count};
	void *scalar = device_new(device, 8, 0);
	struct device_call call;

	device_call_begin(&call, c.r, &like, (int[]){device, device});
	good = case_make_op(&c, &call.o.args.op, scalar);
	if (good && c.persistent)
		good = device_call_request(&call, 3, "by a request");
	else if (good)
		good = device_call_once(&call, "on the device");
	if (call.o.args.op >= CASE_SCALED_HOST)
		rank_did(c.r, coll_red_op_destroy(call.o.args.op, c.r->comm), "red_op_destroy");
	device_call_end(&call);
	device_free(device, scalar);
	return good;
}
