/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * probe.c - calls the functions of plugins that need no endpoint: probe and info, with the host table of a plugin
 * without ranks, and finish, when the process ends.
 */
#include "base/error.h"
#include "base/log.h"
#include "plugin/plugin_impl.h"
#include "plugin/plugin.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct host_probe {
	coll_host_t host;
	const coll_backend_t *backend;
	const struct config *config;
};

static const struct host_probe *host_probe_of(const coll_host_t *host)
{
	return host->core;
}

static void host_probe_log(const coll_host_t *host, int32_t level, const char *text)
{
	log_line(level, host_probe_of(host)->backend->name, text);
}

static const char *host_probe_string(const coll_host_t *host, const char *key)
{
	return config_backend_string(host_probe_of(host)->config, host_probe_of(host)->backend,
				     key);
}

static int64_t host_probe_int(const coll_host_t *host, const char *key)
{
	return config_backend_int(host_probe_of(host)->config, host_probe_of(host)->backend, key);
}

static void host_probe_fill(struct host_probe *probe, const struct plugin *plugin,
			    const struct config *config)
{
	*probe = (struct host_probe){
		.host = {.size = sizeof(coll_host_t),
			 .abi_minor = COLL_BACKEND_ABI_MINOR,
			 .device = -1,
			 .timeout_ms = config_int(config, "init_timeout") / 1000,
			 .core = probe,
			 .log = host_probe_log,
			 .option_string = host_probe_string,
			 .option_int = host_probe_int},
		.backend = &plugin->backend,
		.config = config,
	};
}

void plugin_probe(struct plugin *plugin, const struct config *config)
{
	coll_error_t err = error_blank();
	struct host_probe probe;
	int code;

	if (plugin->code || !plugin->backend.probe)
		return;
	host_probe_fill(&probe, plugin, config);
	code = plugin->backend.probe(&probe.host, &err);
	if (code)
		plugin_refuse_error(plugin, error_take(code, &err));
}

void plugin_ask_info(struct plugin *plugin, const struct config *config)
{
	struct host_probe probe;

	if (plugin->code || !plugin->backend.info)
		return;
	host_probe_fill(&probe, plugin, config);
	if (plugin->backend.info(&probe.host, plugin->info, sizeof(plugin->info)))
		plugin->info[0] = '\0';
	plugin->info[sizeof(plugin->info) - 1] = '\0';
}

/* ---------------------------------------------------- the end of the process -- */

/* A process uses few backends, so the list has a fixed size. */
enum { FINISH_MOST = 64 };

static pthread_mutex_t finish_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*finish_fn[FINISH_MOST])(void);
static int finish_count;
static pid_t finish_pid; /* a forked child uses none of its parent's backends */

/*
 * Runs at exit, before the exit handlers of the libraries that the backends have opened.  The backend that was used first
 * ends last.
 */
static void finish_all(void)
{
	pthread_mutex_lock(&finish_lock);
	if (finish_pid == getpid())
		while (finish_count > 0)
			finish_fn[--finish_count]();
	pthread_mutex_unlock(&finish_lock);
}

static void finish_add(void (*fn)(void))
{
	if (finish_pid != getpid()) {
		finish_count = 0;
		finish_pid = getpid();
	}
	for (int i = 0; i < finish_count; i++)
		if (finish_fn[i] == fn)
			return;
	if (finish_count == FINISH_MOST || atexit(finish_all)) {
		log_warn("a backend will not be told that the process ends: there is no memory "
			 "for a function that runs at exit");
		return;
	}
	finish_fn[finish_count++] = fn;
}

void plugin_will_finish(const struct plugin *plugin)
{
	if (!plugin->backend.finish)
		return;
	pthread_mutex_lock(&finish_lock);
	finish_add(plugin->backend.finish);
	pthread_mutex_unlock(&finish_lock);
}
