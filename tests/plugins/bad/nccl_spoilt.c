/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_spoilt.c - the backend nccl with one fault, which the macro SPOILT names, for
 * tools/check_device.t, which includes each source file of plugins/nccl before this one, with the good
 * backend's table under another name.
 */
#undef coll_backend_v1

enum { CONTEXT = 1, STREAM, RECORD, WAIT, QUERY, TAKES, FLAGS };

static int32_t spoilt_call(void *ep, const coll_args_t *args, coll_error_t *err)
{
	coll_args_t own = *args;
	int pushed;

	if (SPOILT == STREAM)
		own.stream = NULL;
	if (SPOILT == CONTEXT)
		nccl_enter(((struct nccl *)ep)->context, &pushed, err);
	return nccl_call(ep, &own, err);
}

static int32_t spoilt_record(void *ep, void *event, coll_stream_t stream, coll_error_t *err)
{
	return nccl_event_record(ep, event, SPOILT == RECORD ? NULL : stream, err);
}

static int32_t spoilt_wait(void *ep, void *event, coll_stream_t stream, coll_error_t *err)
{
	return SPOILT == WAIT ? COLL_SUCCESS : nccl_event_wait(ep, event, stream, err);
}

static int32_t spoilt_query(void *ep, void *event, coll_error_t *err)
{
	return SPOILT == QUERY ? COLL_SUCCESS : nccl_event_query(ep, event, err);
}

static int32_t spoilt_takes(void *ep, const coll_args_t *args, coll_error_t *err)
{
	if (SPOILT == TAKES && args->count > 1 << 30)
		return error_fill(err, COLL_ERR_UNSUPPORTED, "too long");
	if (SPOILT == FLAGS && args->flags & ~(uint32_t)COLL_ARGS_IN_PLACE)
		return error_fill(err, COLL_ERR_UNSUPPORTED, "an unknown flag");
	return nccl_takes(ep, args, err);
}

static const coll_native_t spoilt_native = {
	.size = sizeof(coll_native_t),
	.allreduce = spoilt_call,
	.broadcast = spoilt_call,
	.barrier = spoilt_call,
	.send = spoilt_call,
	.recv = spoilt_call,
	.group_begin = nccl_group_begin,
	.group_end = nccl_group_end,
	.query = nccl_query,
	.sync = nccl_sync,
	.async_error = nccl_async_error,
	.abort = nccl_abort,
	.split = nccl_split,
	.event_create = nccl_event_create,
	.event_destroy = nccl_event_destroy,
	.event_record = spoilt_record,
	.event_wait = spoilt_wait,
	.event_query = spoilt_query,
	.event_synchronize = nccl_event_synchronize,
	.takes = spoilt_takes,
};

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.name = "spoilt",
	.version = "1.0",
	.description = "a backend for devices with one fault",
	.memory = COLL_MEM_CUDA | COLL_MEM_CUDA_MANAGED,
	.options = nccl_options,
	.option_count = sizeof(nccl_options) / sizeof(nccl_options[0]),
	.option_size = sizeof(coll_option_t),
	.native = &spoilt_native,
	.probe = nccl_probe,
	.open = nccl_open,
	.close = nccl_close,
	.open_all = nccl_open_all,
};
