/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx_log_test.c - UCX's messages in the log and in errors; links that file of the plugin. */
#include "../lib/tap.h"
#include "../../plugins/ucx/ucx.h"

struct ucx_lib ucx_lib;

static ucx_log_handler handler;
static char logged[512];
static int level_logged;

int32_t ucx_library_open(const coll_host_t *host, coll_error_t *err)
{
	(void)host, (void)err;
	return COLL_ERR_UNSUPPORTED;
}

static void push_handler(ucx_log_handler func)
{
	handler = func;
}

static const char *status_string(ucs_status_t status)
{
	(void)status;
	return "a status";
}

static void host_log(const coll_host_t *host, int32_t level, const char *text)
{
	(void)host;
	level_logged = level;
	snprintf(logged, sizeof(logged), "%s", text);
}

/* Logs a message as UCX does. */
static int message(ucs_log_level_t level, const char *format, ...)
{
	va_list args;
	int result;

	va_start(args, format);
	result = handler("file.c", 1, "function", level, NULL, format, args);
	va_end(args);
	return result;
}

static void check_line(const char *text, const char *line)
{
	coll_error_t err = {.size = sizeof(err)};

	is_int(message(UCS_LOG_LEVEL_WARN, "%s", text), 0, "the handler takes a warning");
	is_str(logged, line, "its line in the log");
	is_int(level_logged, COLL_LOG_INFO, "is of level info");
	ucx_refused(&err, UCS_ERR_NO_DEVICE, "the call");
	ok(strstr(err.text, line + strlen("UCX: ")) && !strchr(err.text, '\n'), "the error is '%s'",
	   err.text);
}

int main(void)
{
	const coll_host_t host = {.log = host_log};
	const coll_host_t *before;

	unsetenv("UCX_LOG_LEVEL");
	ucx_lib.ucs_log_push_handler = push_handler;
	ucx_lib.ucs_status_string = status_string;
	ucx_log_handler_install();
	if (!handler)
		bail_out("the plugin has installed no handler");
	before = ucx_log_begin(&host);
	check_line("no device", "UCX: no device");
	check_line("unused variable: UCX_X\n(set UCX_Y=n to suppress this warning)",
		   "UCX: unused variable: UCX_X (set UCX_Y=n to suppress this warning)");
	check_line("one line\n\n", "UCX: one line");
	ucx_log_end(before);
	return done_testing();
}
