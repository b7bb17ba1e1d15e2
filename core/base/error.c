/* SPDX-License-Identifier: BSD-3-Clause */
/* error.c - the calling thread's error text, and the message of each result code. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char error_last[ERROR_TEXT_SIZE];
static _Thread_local int error_last_code;

int error_set(int code, const char *fmt, ...)
{
	/* The arguments may contain error_text() itself. */
	char text[ERROR_TEXT_SIZE];
	va_list args;

	va_start(args, fmt);
	if (vsnprintf(text, sizeof(text), fmt, args) < 0)
		text[0] = '\0';
	va_end(args);
	memcpy(error_last, text, strlen(text) + 1);
	error_last_code = code;
	return code;
}

int error_take(int code, const coll_error_t *err)
{
	if (!err || !err->text[0])
		return error_set(code, "%s", coll_error_string(code));
	return error_set(code, "%.*s", (int)sizeof(err->text) - 1, err->text);
}

const char *error_text(void)
{
	return error_last;
}

int error_code(void)
{
	return error_last_code;
}

void error_note(struct error_first *first, int code)
{
	if (first->code || !code)
		return;
	first->code = code;
	memcpy(first->text, error_last, sizeof(first->text));
}

int error_raise(const struct error_first *first)
{
	return first->code ? error_set(first->code, "%s", first->text) : COLL_SUCCESS;
}

const char *error_remedy(int err)
{
	return err == EMFILE ? "; raise this process's limit of open files (ulimit -n)" : "";
}

const char *coll_error_string(coll_result_t result)
{
	switch (result) {
	case COLL_SUCCESS: return "success";
	case COLL_ERR_DEVICE: return "the accelerator's driver or runtime reported an error";
	case COLL_ERR_SYSTEM: return "a call into the operating system failed";
	case COLL_ERR_INTERNAL: return "a fault of the library or of a plugin";
	case COLL_ERR_INVALID_ARGUMENT: return "an argument is wrong";
	case COLL_ERR_INVALID_USAGE: return "the call is not allowed in this state";
	case COLL_ERR_REMOTE: return "another rank failed";
	case COLL_IN_PROGRESS: return "not yet complete";
	case COLL_ERR_TIMEOUT: return "timed out";
	case COLL_ERR_UNSUPPORTED: return "not supported";
	case COLL_ERR_NO_MEMORY: return "out of memory";
	case COLL_ERR_CONFIG: return "an option is wrong";
	case COLL_ERR_NOT_FOUND: return "there is no backend of that name";
	case COLL_ERR_PLUGIN: return "a plugin could not be loaded or opened";
	case COLL_ERR_ABI: return "a plugin was built for an ABI that this library does not speak";
	case COLL_ERR_MISMATCH: return "ranks issued different operations";
	case COLL_ERR_PEER_LOST: return "a rank died or left";
	case COLL_ERR_ABORTED: return "the communicator was aborted";
	case COLL_ERR_VERSION: return "ranks run library versions that cannot talk to each other";
	case COLL_ERR_PERMISSION: return "refused for safety";
	default: return "unknown result code";
	}
}
