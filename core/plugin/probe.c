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
	const struct log_about about = config_log_about(host_probe_of(host)->config, NULL);

	log_plugin(&about, level, host_probe_of(host)->backend->name, text);
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
	coll_error_t err;
	struct host_probe probe;
	int code;

	error_clear(&err);
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

/* A backend that the process has begun to open. */
struct finish {
	void (*fn)(void);
	int opened; /* an open has returned */
	int called;
};

static pthread_mutex_t finish_lock = PTHREAD_MUTEX_INITIALIZER;
static struct finish finish_list[FINISH_MOST];
static int finish_count;
static pid_t finish_pid; /* a forked child uses none of its parent's backends */

/* Runs at exit, once for each time that it was registered.  The backend that was used first ends last. */
static void finish_all(void)
{
	struct finish *f;

	pthread_mutex_lock(&finish_lock);
	for (int i = finish_pid == getpid() ? finish_count : 0; i-- > 0;) {
		f = &finish_list[i];
		if (f->called)
			continue;
		f->called = 1;
		f->fn();
	}
	pthread_mutex_unlock(&finish_lock);
}

/* NULL: the backend is not in the list of this process. */
static struct finish *finish_find(void (*fn)(void))
{
	if (finish_pid != getpid()) {
		finish_count = 0;
		finish_pid = getpid();
	}
	for (int i = 0; i < finish_count; i++)
		if (finish_list[i].fn == fn)
			return &finish_list[i];
	return NULL;
}

static void finish_add(void (*fn)(void))
{
	if (finish_count < FINISH_MOST && !atexit(finish_all))
		finish_list[finish_count++] = (struct finish){.fn = fn};
	else
		log_warn("a backend will not be told that the process ends: there is no memory "
			 "for a function that runs at exit");
}

int plugin_open_begin(const struct plugin *plugin)
{
	void (*fn)(void) = plugin->backend.finish;
	const struct finish *f;
	int is_first;

	if (!fn)
		return 0;
	pthread_mutex_lock(&finish_lock);
	f = finish_find(fn);
	is_first = !f || !f->opened;
	if (!f)
		finish_add(fn);
	pthread_mutex_unlock(&finish_lock);
	return is_first;
}

void plugin_open_end(const struct plugin *plugin, int is_first)
{
	struct finish *f;

	if (!is_first)
		return;
	pthread_mutex_lock(&finish_lock);
	f = finish_find(plugin->backend.finish);
	if (f) {
		f->opened = 1;
		/* If atexit has no memory, the backend ends after those handlers. */
		(void)atexit(finish_all);
	}
	pthread_mutex_unlock(&finish_lock);
}
