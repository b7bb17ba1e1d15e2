/* SPDX-License-Identifier: BSD-3-Clause */
/* info.c - makes a coll_info_t: the configuration, backends and algorithms that this process would use now. */
#include "introspect/info.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/handle.h"
#include "device/device.h"

#include <coll/backend.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void info_free(struct coll_info *info)
{
	if (!info)
		return;
	free(info->why);
	free(info->description);
	plugins_free(info->plugins);
	config_free(info->config);
	free(info);
}

/* ------------------------------------------------------------------------ making -- */

static int info_describe(struct coll_info *info)
{
	const int n = info->plugins->count;
	const struct plugin *p = info->plugins->item;

	info->why = calloc((size_t)n + 1, sizeof(*info->why));
	info->description = calloc((size_t)n + 1, sizeof(*info->description));
	if (!info->why || !info->description)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for the list of backends");
	plugins_describe(info->plugins, info->config);
	for (int i = 0; i < n; i++)
		snprintf(info->description[i], sizeof(info->description[i]), "%s%s%s%s",
			 p[i].backend.description ? p[i].backend.description : "",
			 p[i].info[0] ? " (" : "", p[i].info, p[i].info[0] ? ")" : "");
	return COLL_SUCCESS;
}

/* No backend can be chosen between processes: writes the verdict.  `code` and error_text() tell the cause. */
static void info_verdict_in_process(struct coll_info *info, int code)
{
	const struct plugin *chosen, *again;
	char reason[1024];

	snprintf(reason, sizeof(reason), "%s", error_text());
	info->code = select_local(info->config, info->plugins, 1, &chosen, NULL);
	if (info->code) {
		info->code = code;
		snprintf(info->sentence, sizeof(info->sentence), "%s", reason);
		return;
	}
	info->chosen = chosen;
	select_local(info->config, info->plugins, 1, &again, info->why);
	snprintf(info->sentence, sizeof(info->sentence),
		 "if all ranks live in one process, backend '%s' would be chosen; between "
		 "processes: %s",
		 chosen->name, reason);
}

/* The backend for ranks that all run on one host, or in one process.  It stays valid when the list moves. */
struct info_within {
	int32_t priority;
	char name[sizeof(((struct plugin *)0)->name)]; /* "": none can be chosen */
};

static struct info_within info_choose_within(const struct coll_info *info, int in_process)
{
	struct info_within within = {0};
	const struct plugin *chosen;

	if (select_local(info->config, info->plugins, in_process, &chosen, NULL))
		return within;
	snprintf(within.name, sizeof(within.name), "%s", chosen->name);
	within.priority = chosen->priority;
	return within;
}

__attribute__((format(printf, 2, 3))) static void info_add(struct coll_info *info, const char *fmt,
							   ...)
{
	const size_t used = strlen(info->sentence);
	va_list args;

	va_start(args, fmt);
	vsnprintf(info->sentence + used, sizeof(info->sentence) - used, fmt, args);
	va_end(args);
}

/* Adds to the verdict, and to the backend's own sentence, that it would be chosen `where`, and by which priority. */
static void info_add_within(struct coll_info *info, const struct info_within *within,
			    const char *where)
{
	char *why = info->why[plugins_find(info->plugins, within->name) - info->plugins->item];
	const size_t used = strlen(why);

	info_add(info, "; if all ranks %s: '%s' (priority %" PRId32 ")", where, within->name,
		 within->priority);
	snprintf(why + used, sizeof(*info->why) - used,
		 "; if all ranks %s: chosen (priority %" PRId32 ")", where, within->priority);
}

/*
 * Chooses the backend of a communicator on several hosts.  The sentence also names the choice within one host and within one
 * process, where it is another backend.
 */
static void info_choose(struct coll_info *info)
{
	struct info_within host, process;
	const char *at;
	int code;

	plugins_place(info->plugins, info->config, 1);
	host = info_choose_within(info, 0);
	process = info_choose_within(info, 1);
	plugins_place(info->plugins, info->config, 0);
	code = select_local(info->config, info->plugins, 0, &info->chosen, info->why);
	if (code) {
		info_verdict_in_process(info, code);
		return;
	}
	at = strchr(info->why[info->chosen - info->plugins->item], ':');
	snprintf(info->sentence, sizeof(info->sentence), "backend '%s' would be chosen%s",
		 info->chosen->name, at ? at : "");
	if (host.name[0] && strcmp(host.name, info->chosen->name))
		info_add_within(info, &host, "run on one host");
	if (process.name[0] && strcmp(process.name, host.name))
		info_add_within(info, &process, "live in one process");
}

/* Notes a failure with its text, unless there is one already. */
static void info_note_failure(int *code, char text[1024], int failure)
{
	if (!failure || *code)
		return;
	*code = failure;
	snprintf(text, 1024, "%s", error_text());
}

/*
 * The core probes every backend that the option `backend` does not rule out, also the backends that it takes only by
 * name.  `coll info` asks for children, since it is to show the plugins that crash.
 */
static int info_load(struct coll_info *info, int uses_cuda)
{
	const char *probe = secure_getenv("COLL_INFO_PROBE");
	const int children = probe && !strcmp(probe, "child") ? PLUGINS_IN_CHILDREN : 0;

	return plugins_load(info->config, PLUGINS_ALLOWED | PLUGINS_IDLE | children, uses_cuda,
			    &info->plugins);
}

/* Fills in everything, also after a fault of the configuration, which then is the status. */
static int info_fill(struct coll_info *info, int code, int uses_cuda)
{
	char text[1024];
	int loaded;

	snprintf(text, sizeof(text), "%s", error_text());
	info_note_failure(&code, text, choose_compile(info->config, &info->selection));
	loaded = info_load(info, uses_cuda);
	if (!info->plugins || loaded == COLL_ERR_NO_MEMORY) /* then options may lack values */
		return loaded;
	info_note_failure(&code, text, loaded);
	loaded = info_describe(info);
	if (loaded)
		return loaded;
	info_choose(info);
	select_excludes_unknown(info->config, info->plugins, info->unknown, sizeof(info->unknown));
	if (!code)
		return COLL_SUCCESS;
	if (info->chosen)
		snprintf(info->why[info->chosen - info->plugins->item], sizeof(*info->why),
			 "passed over: the configuration has an error");
	info->code = code;
	info->chosen = NULL;
	snprintf(info->sentence, sizeof(info->sentence), "%s", text);
	return COLL_SUCCESS;
}

coll_result_t coll_info_create(const coll_config_t *config, coll_info_t *out)
{
	CANCEL_OFF;
	struct coll_info *info;
	int uses_cuda, code;

	if (!out)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_info_create: info is NULL");
	*out = NULL;
	info = calloc(1, sizeof(*info));
	if (!info)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a coll_info_t");
	/* Ask before plugins are probed, since a probe may initialise CUDA. */
	uses_cuda = device_in_use();
	if (config && config->size >= offsetof(coll_config_t, reserved))
		uses_cuda |= config->device >= 0;
	code = config_load(config, rules_check_option, &info->config);
	if (info->config)
		code = info_fill(info, code, uses_cuda);
	if (!code)
		*out = handle_new(HANDLE_INFO, info);
	if (!code && !*out)
		code = handle_none("a coll_info_t");
	if (code)
		info_free(info);
	return code;
}

void coll_info_destroy(coll_info_t handle)
{
	struct coll_info *info = handle_pin(HANDLE_INFO, handle);

	if (info && !handle_end(handle, "a coll_info_t"))
		info_free(info);
}

/* ------------------------------------------------------------------ one backend -- */

static int info_available(struct config *config, const char *name)
{
	const struct plugin *plugin;
	struct plugin_list *plugins;
	int code = plugins_load(config, 0, device_in_use(), &plugins);

	if (code) {
		plugins_free(plugins);
		return code;
	}
	/* Open this plugin only: another plugin may open a vendor's library and take half a second. */
	plugins_open(plugins, config, name);
	plugin = plugins_probe(plugins, config, name);
	if (!plugin)
		code = select_unknown(plugins, name);
	else if (plugin->code)
		code = error_set(plugin->code, "%s", plugin->reason);
	plugins_free(plugins);
	return code;
}

coll_result_t coll_backend_available(const char *name, char *reason, size_t size)
{
	CANCEL_OFF;
	struct config *config = NULL;
	int code;

	if (!name)
		code = error_set(COLL_ERR_INVALID_ARGUMENT, "coll_backend_available: name is NULL");
	else
		code = config_load(NULL, rules_check_option, &config);
	if (!code)
		code = info_available(config, name);
	config_free(config);
	if (reason && size)
		snprintf(reason, size, "%s", code ? error_text() : "");
	return code;
}
