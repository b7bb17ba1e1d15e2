/* SPDX-License-Identifier: BSD-3-Clause */
/* error.c - version, codes and texts. */
#include "dropin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char ncclDropInOfColl[] = "libcoll";

static _Thread_local char error_text[1024];

const char *last_error(void)
{
	return error_text;
}

/* As NCCL does, the library prints the reason of an error only if the user asks for it. */
static void error_print(void)
{
	const char *level = getenv("NCCL_DEBUG");

	if (level && strcmp(level, "NONE") && strcmp(level, "VERSION"))
		fprintf(stderr, "libcoll's NCCL: %s\n", error_text);
}

ncclResult_t fail(ncclResult_t code, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(error_text, sizeof(error_text), fmt, args);
	va_end(args);
	error_print();
	return code;
}

void error_keep(const char *text)
{
	snprintf(error_text, sizeof(error_text), "%s", text);
}

ncclResult_t nccl_code(coll_result_t code)
{
	switch (code) {
	case COLL_ERR_UNSUPPORTED:
	case COLL_ERR_MISMATCH:
	case COLL_ERR_ABORTED: return ncclInvalidUsage;
	case COLL_ERR_PEER_LOST: return ncclRemoteError;
	default: return code >= 0 && code < ncclNumResults ? code : ncclSystemError;
	}
}

ncclResult_t from_coll(coll_result_t code)
{
	if (!code)
		return ncclSuccess;
	return fail(nccl_code(code), "%s", coll_get_last_error(NULL));
}

ncclResult_t ncclGetVersion(int *version)
{
	if (!version)
		return fail(ncclInvalidArgument, "ncclGetVersion: version is NULL");
	*version = NCCL_VERSION_CODE;
	return ncclSuccess;
}
NCCL_ALSO(ncclGetVersion);

const char *ncclGetErrorString(ncclResult_t result)
{
	if (result < 0 || result >= ncclNumResults)
		return "unknown result code";
	return coll_error_string(result);
}
NCCL_ALSO(ncclGetErrorString);

/* The text of the thread's last failed call; after a failure of the communicator, its reason. */
const char *ncclGetLastError(ncclComm_t comm)
{
	const char *text = "";

	if (comm && !comm_check(comm, "ncclGetLastError"))
		text = coll_get_last_error(comm->coll);
	return text[0] ? text : error_text;
}
NCCL_ALSO(ncclGetLastError);

/* NCCL_DEBUG is read at each error. */
void ncclResetDebugInit(void)
{
}
NCCL_ALSO(ncclResetDebugInit);
