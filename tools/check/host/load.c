/* SPDX-License-Identifier: BSD-3-Clause */
/* load.c - loads the plugin as the core does, and reads its options. */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check/host/host.h"

static struct check_plugin load_plugin;
static char load_text[400];

/* Copies min(own, size) bytes; the rest of the copy is 0. */
static void load_copy(void *copy, size_t own, const void *from, uint64_t size)
{
	memcpy(copy, from, size < own ? (size_t)size : own);
}

const struct check_plugin *check_plugin(const struct check_case *c, const char **text)
{
	struct check_plugin *plugin = &load_plugin;
	void *handle;

	*text = load_text;
	if (plugin->own)
		return plugin;
	handle = dlopen(c->options->path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!handle) {
		snprintf(load_text, sizeof(load_text), "cannot load it: %s", dlerror());
		return NULL;
	}
	plugin->own = dlsym(handle, COLL_BACKEND_SYMBOL);
	if (!plugin->own) {
		snprintf(load_text, sizeof(load_text), "it has no symbol %s", COLL_BACKEND_SYMBOL);
		return NULL;
	}
	load_copy(&plugin->backend, sizeof(plugin->backend), plugin->own, plugin->own->size);
	if (plugin->backend.transport)
		load_copy(&plugin->transport, sizeof(plugin->transport), plugin->backend.transport,
			  plugin->backend.transport->size);
	if (plugin->backend.native)
		load_copy(&plugin->native, sizeof(plugin->native), plugin->backend.native,
			  plugin->backend.native->size);
	return plugin;
}

/* ------------------------------------------------------------------ options -- */

const coll_option_t *check_option_in(const coll_option_t *options, uint32_t count, uint32_t size,
				     const char *key)
{
	const char *at = (const char *)options;

	for (uint32_t i = 0; at && i < count; i++) {
		const coll_option_t *option = (const coll_option_t *)(const void *)at;

		if (option->key && !strcmp(option->key, key))
			return option;
		at += size;
	}
	return NULL;
}

const coll_option_t *check_option_find(const struct check_plugin *plugin, const char *key)
{
	const coll_backend_t *backend = &plugin->backend;

	return check_option_in(backend->options, backend->option_count, backend->option_size, key);
}

const char *check_option_text(const struct check_case *c, const coll_option_t *option)
{
	const char *text = option->fallback;

	for (const char *const *key = c->options->keys; *key; key += 2)
		if (!strcmp(key[0], option->key))
			text = key[1];
	return text;
}

struct load_unit {
	const char *name;
	int64_t factor;
};

static const struct load_unit load_durations[] = {{"us", 1},         {"ms", 1000},  {"s", 1000000},
						  {"min", 60000000}, {"", 1000000}, {NULL, 0}};
static const struct load_unit load_sizes[] = {{"", 1},        {"k", 1 << 10}, {"K", 1 << 10},
					      {"m", 1 << 20}, {"M", 1 << 20}, {"g", 1 << 30},
					      {"G", 1 << 30}, {NULL, 0}};
static const struct load_unit load_numbers[] = {{"", 1}, {NULL, 0}};

static int load_number(const struct load_unit *units, const char *text, int64_t *value)
{
	char *end;
	double number = strtod(text, &end);

	if (end == text)
		return -1;
	while (*end == ' ')
		end++;
	for (; units->name; units++)
		if (!strcmp(units->name, end)) {
			*value = (int64_t)(number * (double)units->factor);
			return 0;
		}
	return -1;
}

static int load_bool(const char *text, int64_t *value)
{
	static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};

	for (int i = 0; i < 8; i++)
		if (!strcmp(text, words[i])) {
			*value = i & 1;
			return 0;
		}
	return -1;
}

int check_option_value(const coll_option_t *option, const char *text, int64_t *value)
{
	int bad;

	*value = 0;
	switch (option->type) {
	case COLL_OPTION_STRING: return 0;
	case COLL_OPTION_BOOL: return load_bool(text, value);
	case COLL_OPTION_INT: bad = load_number(load_numbers, text, value); break;
	case COLL_OPTION_BYTES: bad = load_number(load_sizes, text, value); break;
	case COLL_OPTION_DURATION: bad = load_number(load_durations, text, value); break;
	default: return -1;
	}
	return bad || *value < option->min || *value > option->max ? -1 : 0;
}

/* ------------------------------------------------------------------ needs -- */

static int load_has(const struct check_plugin *plugin, unsigned need)
{
	const coll_transport_t *t = &plugin->transport;
	const coll_native_t *n = &plugin->native;

	switch (need) {
	case CHECK_TRANSPORT: return t->send && t->progress;
	case CHECK_NATIVE: return plugin->backend.native != NULL;
	case CHECK_SLEEP: return t->wait_fd && t->arm;
	case CHECK_CANCEL: return t->cancel && t->drop;
	case CHECK_REGISTER: return t->mem_register && t->mem_deregister;
	case CHECK_FORKED: return t->forked != NULL;
	case CHECK_EVENTS: return n->event_create && n->event_destroy && n->event_record;
	case CHECK_SPLIT: return n->split != NULL;
	case CHECK_MEMORY: return t->memory != NULL;
	case CHECK_TOGETHER: return t->send_more && t->flush;
	case CHECK_ALLOCATE: return t->mem_alloc && t->mem_free;
	case CHECK_SURVIVES:
		return !plugin->backend.transport || t->cancel || plugin->backend.abi_minor >= 4;
	default: return 1;
	}
}

static const struct {
	unsigned need;
	const char *what;
} load_needs[] = {{CHECK_TRANSPORT, "transport group"},
		  {CHECK_NATIVE, "native group"},
		  {CHECK_SLEEP, "transport->wait_fd and arm"},
		  {CHECK_CANCEL, "transport->cancel and drop"},
		  {CHECK_REGISTER, "transport->mem_register"},
		  {CHECK_FORKED, "transport->forked"},
		  {CHECK_EVENTS, "native->event_create and the like"},
		  {CHECK_SPLIT, "native->split"},
		  {CHECK_MEMORY, "transport->memory"},
		  {CHECK_TOGETHER, "transport->send_more and flush"},
		  {CHECK_ALLOCATE, "transport->mem_alloc"},
		  {CHECK_SURVIVES,
		   "transport->cancel, and is older than ABI 1.4: the core closes its "
		   "endpoint if a send to a lost rank has no status"}};

static void load_probe(struct check_case *c)
{
	coll_error_t err = {.size = sizeof(err)};
	struct check_ep *ep = check_ep_new(c, 0, 0);

	if (ep->plugin->backend.probe(&ep->host, &err))
		check_skip(c, "the plugin cannot be used here: %.400s", err.text);
	check_ep_free(ep);
}

/*
 * Calls probe in a process of its own, because probe may initialise a vendor's library, which
 * forked children cannot use.
 */
static void load_probe_apart(struct check_case *c)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		load_probe(c);
		_exit(0);
	}
	if (pid < 0)
		check_fail(c, "the kit cannot make a process: %s", strerror(errno));
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status)) {
		signal(WTERMSIG(status), SIG_DFL);
		raise(WTERMSIG(status));
	}
	if (status)
		_exit(WEXITSTATUS(status));
}

/*
 * Skips a check of a part that the plugin lacks.  A plugin without a transport group lacks all parts of the transport for
 * that reason.
 */
static void load_needs_parts(struct check_case *c, const struct check_plugin *plugin)
{
	const struct check *check = c->check;

	for (size_t i = 0; i < sizeof(load_needs) / sizeof(load_needs[0]); i++) {
		const unsigned need = load_needs[i].need;

		if (!(check->needs & need) || load_has(plugin, need) ||
		    (need == CHECK_TRANSPORT && check_is_carried(c)))
			continue;
		if (need == CHECK_TRANSPORT && check->bare)
			check_skip(c, "the plugin has no transport group: %s", check->bare);
		else
			check_skip(c, "the plugin has no %s", load_needs[i].what);
	}
}

/* Skips a check of a promise that the plugin's header does not have. */
static void load_needs_minor(struct check_case *c, const struct check_plugin *plugin)
{
	if (plugin->backend.abi_minor < c->check->since)
		check_skip(c, "a promise since ABI %d.%u, and the plugin is of ABI %d.%u: %s",
			   COLL_BACKEND_ABI_MAJOR, c->check->since, COLL_BACKEND_ABI_MAJOR,
			   plugin->backend.abi_minor, c->check->older);
}

void check_needs(struct check_case *c)
{
	const struct check_plugin *plugin;
	const char *text;

	if (c->check->group == CHECK_FILE)
		return;
	plugin = check_plugin(c, &text);
	if (!plugin) {
		check_skip(c, "%s", text);
		return;
	}
	load_needs_parts(c, plugin);
	load_needs_minor(c, plugin);
	if (c->processes && plugin->backend.flags & COLL_BACKEND_IN_PROCESS)
		check_skip(c, "the plugin works within one process only");
	if (c->check->group > CHECK_TABLE)
		check_device_needs(c);
	if (c->check->group == CHECK_TABLE || !plugin->backend.probe)
		return;
	/* With --no-fork the earlier checks have used the plugin here, and a child could not use it. */
	if (c->processes && !c->options->no_fork)
		load_probe_apart(c);
	else
		load_probe(c);
}
