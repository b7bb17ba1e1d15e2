/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * absent.c - functions of NCCL that have no counterpart in coll.h.  Each answers as NCCL does where the hardware or
 * the communicator has no support: registering a window succeeds and gives no window, one-sided operations are
 * invalid arguments.
 */
#include "dropin.h"

/* --------------------------------------------------------------------- windows -- */

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t size,
				    ncclWindow_t *window, int flags)
{
	ncclResult_t code = comm_check(comm, "ncclCommWindowRegister");

	(void)flags;
	if (!code && (!window || !buffer || !size))
		code = fail(ncclInvalidArgument,
			    "ncclCommWindowRegister: %zu bytes at %p, and the window goes to %p",
			    size, buffer, (void *)window);
	if (window)
		*window = NULL;
	return group_note(code);
}
NCCL_ALSO(ncclCommWindowRegister);

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
	ncclResult_t code = comm_check(comm, "ncclCommWindowDeregister");

	if (!code && window)
		code = fail(ncclInvalidArgument, "ncclCommWindowDeregister: no such window");
	return group_note(code);
}
NCCL_ALSO(ncclCommWindowDeregister);

ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void **ptr)
{
	ncclResult_t code = comm_check(comm, "ncclWinGetUserPtr");

	(void)window;
	if (!code && !ptr)
		code = fail(ncclInvalidArgument, "ncclWinGetUserPtr: outUserPtr is NULL");
	if (!code)
		*ptr = NULL;
	return code;
}
NCCL_ALSO(ncclWinGetUserPtr);

static ncclResult_t one_sided(const struct ncclComm *comm, const char *function)
{
	ncclResult_t code = comm_check(comm, function);

	if (!code)
		code = fail(ncclInvalidArgument,
			    "%s: one-sided operations are not supported; use ncclSend and ncclRecv",
			    function);
	return group_note(code);
}

ncclResult_t ncclPutSignal(const void *local, size_t count, ncclDataType_t type, int peer,
			   ncclWindow_t window, size_t offset, int signal, int context,
			   unsigned flags, ncclComm_t comm, cudaStream_t stream)
{
	(void)local, (void)count, (void)type, (void)peer, (void)window, (void)offset;
	(void)signal, (void)context, (void)flags, (void)stream;
	return one_sided(comm, "ncclPutSignal");
}
NCCL_ALSO(ncclPutSignal);

ncclResult_t ncclSignal(int peer, int signal, int context, unsigned flags, ncclComm_t comm,
			cudaStream_t stream)
{
	(void)peer, (void)signal, (void)context, (void)flags, (void)stream;
	return one_sided(comm, "ncclSignal");
}
NCCL_ALSO(ncclSignal);

ncclResult_t ncclWaitSignal(int n, ncclWaitSignalDesc_t *signals, ncclComm_t comm,
			    cudaStream_t stream)
{
	(void)n, (void)signals, (void)stream;
	return one_sided(comm, "ncclWaitSignal");
}
NCCL_ALSO(ncclWaitSignal);

/* ---------------------------------------------------------------- communicators -- */

static ncclResult_t absent(const struct ncclComm *comm, const char *function, const char *instead)
{
	ncclResult_t code = comm_check(comm, function);

	return code ? code : fail(ncclInvalidUsage, "%s is not supported; %s", function, instead);
}

ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *id)
{
	(void)id;
	return absent(comm, "ncclCommGetUniqueId", "make a new communicator of all ranks");
}
NCCL_ALSO(ncclCommGetUniqueId);

ncclResult_t ncclCommGrow(ncclComm_t comm, int nranks, const ncclUniqueId *id, int rank,
			  ncclComm_t *newcomm, ncclConfig_t *config)
{
	(void)comm, (void)nranks, (void)id, (void)rank, (void)config;
	if (newcomm)
		*newcomm = NULL;
	return group_note(
		fail(ncclInvalidUsage,
		     "ncclCommGrow is not supported; make a new communicator of all ranks"));
}
NCCL_ALSO(ncclCommGrow);

ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags)
{
	(void)flags;
	return absent(comm, "ncclCommSuspend", "destroy the communicator to free its memory");
}
NCCL_ALSO(ncclCommSuspend);

ncclResult_t ncclCommResume(ncclComm_t comm)
{
	return absent(comm, "ncclCommResume", "the communicator was never suspended");
}
NCCL_ALSO(ncclCommResume);

ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value)
{
	(void)stat, (void)value;
	return absent(comm, "ncclCommMemStats", "the library does not count memory of devices");
}
NCCL_ALSO(ncclCommMemStats);

/* The operations are forgotten, as after NCCL's estimate. */
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info)
{
	ncclResult_t code = group_forget();

	(void)info;
	return code ? code
		    : fail(ncclInvalidUsage, "ncclGroupSimulateEnd is not supported: the library "
					     "estimates no times; the group is closed");
}
NCCL_ALSO(ncclGroupSimulateEnd);

/* ------------------------------------------------------------------- parameters -- */

/* There are no parameters, so that no key is known and no handle valid. */
static ncclResult_t no_parameter(const char *function)
{
	return fail(ncclInvalidArgument,
		    "%s: there is no such parameter; `coll info` lists libcoll's options",
		    function);
}

ncclResult_t ncclParamBind(ncclParamHandle_t *param, const char *key)
{
	(void)param, (void)key;
	return no_parameter("ncclParamBind");
}
NCCL_ALSO(ncclParamBind);

#define PARAM_GET(SUFFIX, TYPE)                                                                    \
	ncclResult_t ncclParamGet##SUFFIX(ncclParamHandle_t param, TYPE *value)                    \
	{                                                                                          \
		(void)param, (void)value;                                                          \
		return no_parameter("ncclParamGet" #SUFFIX);                                       \
	}                                                                                          \
	NCCL_ALSO(ncclParamGet##SUFFIX)

PARAM_GET(I8, int8_t);
PARAM_GET(I16, int16_t);
PARAM_GET(I32, int32_t);
PARAM_GET(I64, int64_t);
PARAM_GET(U8, uint8_t);
PARAM_GET(U16, uint16_t);
PARAM_GET(U32, uint32_t);
PARAM_GET(U64, uint64_t);
PARAM_GET(Str, const char *);

ncclResult_t ncclParamGet(ncclParamHandle_t param, void *value, int size, int *length)
{
	(void)param, (void)value, (void)size, (void)length;
	return no_parameter("ncclParamGet");
}
NCCL_ALSO(ncclParamGet);

ncclResult_t ncclParamGetParameter(const char *key, const char **value, int *length)
{
	(void)key, (void)value, (void)length;
	return no_parameter("ncclParamGetParameter");
}
NCCL_ALSO(ncclParamGetParameter);

ncclResult_t ncclParamGetAllParameterKeys(const char ***keys, int *count)
{
	static const char *none;

	if (!keys || !count)
		return fail(ncclInvalidArgument, "ncclParamGetAllParameterKeys: keys or count is "
						 "NULL");
	*keys = &none;
	*count = 0;
	return ncclSuccess;
}
NCCL_ALSO(ncclParamGetAllParameterKeys);

void ncclParamDumpAll(void)
{
}
NCCL_ALSO(ncclParamDumpAll);
