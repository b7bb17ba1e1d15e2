/* SPDX-License-Identifier: BSD-3-Clause */
/* host_probe.c - the small table of functions that a plugin gets before there are any ranks. */
#include "error.h"
#include "log.h"
#include "plugin_impl.h"

#include <stdio.h>
#include <string.h>

struct host_probe {
	coll_host_t host;
	const coll_backend_t *backend;
	const struct conf *conf;
};

static const struct host_probe *host_probe_of(const coll_host_t *host)
{
	return host->core;
}

static void host_probe_log(const coll_host_t *host, int32_t level, const char *text)
{
	log_line(level, host_probe_of(host)->backend->name, text);
}

/* "<backend>.<key>", if the plugin declared the key as a string, or as a number. */
static int host_probe_option(const coll_host_t *host, const char *key, int as_string, char *name,
			     size_t size)
{
	const coll_backend_t *b = host_probe_of(host)->backend;

	for (uint32_t i = 0; key && i < b->option_count; i++)
		if (!strcmp(b->options[i].key, key) &&
		    (b->options[i].type == COLL_OPTION_STRING) == as_string) {
			snprintf(name, size, "%s.%s", b->name, key);
			return 1;
		}
	return 0;
}

static const char *host_probe_string(const coll_host_t *host, const char *key)
{
	char name[128];

	if (!host_probe_option(host, key, 1, name, sizeof(name)))
		return NULL;
	return conf_string(host_probe_of(host)->conf, name);
}

static int64_t host_probe_int(const coll_host_t *host, const char *key)
{
	char name[128];

	if (!host_probe_option(host, key, 0, name, sizeof(name)))
		return 0;
	return conf_int(host_probe_of(host)->conf, name);
}

static void host_probe_fill(struct host_probe *probe, const struct plugin *plugin,
			    const struct conf *conf)
{
	*probe = (struct host_probe){
		.host = {.size = sizeof(coll_host_t),
			 .abi_minor = COLL_BACKEND_ABI_MINOR,
			 .device = -1,
			 .timeout_ms = conf_int(conf, "init_timeout") / 1000,
			 .core = probe,
			 .log = host_probe_log,
			 .option_string = host_probe_string,
			 .option_int = host_probe_int},
		.backend = &plugin->backend,
		.conf = conf,
	};
}

void plugin_probe(struct plugin *plugin, const struct conf *conf)
{
	coll_error_t err = error_blank();
	struct host_probe probe;
	int code;

	if (plugin->code || !plugin->backend.probe)
		return;
	host_probe_fill(&probe, plugin, conf);
	code = plugin->backend.probe(&probe.host, &err);
	if (code)
		plugin_refuse_error(plugin, error_take(code, &err));
}

void plugin_ask_info(struct plugin *plugin, const struct conf *conf)
{
	struct host_probe probe;

	if (plugin->code || !plugin->backend.info)
		return;
	host_probe_fill(&probe, plugin, conf);
	if (plugin->backend.info(&probe.host, plugin->info, sizeof(plugin->info)))
		plugin->info[0] = '\0';
	plugin->info[sizeof(plugin->info) - 1] = '\0';
}
