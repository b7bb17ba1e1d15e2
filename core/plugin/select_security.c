/* SPDX-License-Identifier: BSD-3-Clause */
/* select_security.c - the backends that protect messages between hosts, if the user asks for that. */
#include "plugin/plugin_impl.h"

#include <stdio.h>
#include <string.h>

/* Does the backend protect messages, as its own option `security` says? */
static int security_is_kept(const struct plugin *plugin, const struct config *config)
{
	const coll_backend_t *b = &plugin->backend;
	const char *text = config_backend_string(config, b, "security");

	return text ? config_asks(text) : config_backend_int(config, b, "security") != 0;
}

static int security_is_declared(const struct plugin *plugin)
{
	for (uint32_t i = 0; i < plugin->backend.option_count; i++)
		if (!strcmp(plugin->backend.options[i].key, "security"))
			return 1;
	return 0;
}

/* A backend with collectives of its own moves data in ways that the library cannot replace. */
static int security_is_engine(const struct plugin *plugin)
{
	return plugin->backend.native && !plugin->backend.transport;
}

static void security_explain(struct plugin *plugin, const struct config_security *asked)
{
	const char *name = plugin->name;
	char request[256];

	snprintf(request, sizeof(request), "option %.64s.security is %.40s (%.120s), but",
		 asked->section, asked->value, asked->source);
	if (security_is_engine(plugin))
		snprintf(
			plugin->unsafe, sizeof(plugin->unsafe),
			"%s the messages that '%s' itself sends between hosts cannot be "
			"protected: set backend = tcp, for memory of devices with "
			"enable_gpu_fallback = yes, or set %.64s.security = none on a network that "
			"is encrypted itself",
			request, name, asked->section);
	else if (security_is_declared(plugin))
		snprintf(plugin->unsafe, sizeof(plugin->unsafe),
			 "%s option %s.security asks for no protection: set both alike", request,
			 name);
	else
		snprintf(plugin->unsafe, sizeof(plugin->unsafe),
			 "%s '%s' does not protect messages between hosts: use backend tcp with "
			 "tcp.security, or set %.64s.security = none",
			 request, name, asked->section);
}

void plugin_secure(struct plugin *plugin, const struct config *config, int one_host)
{
	struct config_security asked;

	plugin->unsafe[0] = '\0';
	if (!one_host && !plugin->code && config_security(config, 0, &asked) &&
	    !security_is_kept(plugin, config))
		security_explain(plugin, &asked);
}
