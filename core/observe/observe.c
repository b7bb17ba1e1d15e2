/* SPDX-License-Identifier: BSD-3-Clause */
/* observe.c - opens the observers of a communicator, passes events to them, and closes them. */
#include "observe/observe.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/log.h"
#include "base/path_pattern.h"
#include "observe/log_events.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An open observer.  Its host table comes first, so that host functions find the rest. */
struct observer {
	coll_observer_host_t host;
	const coll_observer_t *table;
	uint32_t wants;
	const struct config *config; /* NULL once open() has returned */
	struct log_place log;
	uint64_t job;
	void *state;
};

struct observers {
	uint32_t count, wanted;
	unsigned forks; /* observe_forks when they were opened */
	struct observer *item[];
};

/* ------------------------------------------------------------------------- forks -- */

/* Counts the forks that have led to this process: a process that fork has made tells and closes no observer. */
static unsigned observe_forks;

static void observe_forked(void)
{
	observe_forks++;
}

static void observe_watch(void)
{
	pthread_atfork(NULL, NULL, observe_forked);
}

/* ----------------------------------------------------------------- the host table -- */

static const struct observer *observer_of(const coll_observer_host_t *host)
{
	return (const struct observer *)host;
}

/* Writes the full name of an option that the observer has declared.  Returns the configuration, or NULL. */
static const struct config *observer_find(const coll_observer_host_t *host, const char *key,
					  char name[128])
{
	const struct observer *observer = observer_of(host);
	const coll_observer_t *table = observer->table;

	for (uint32_t i = 0; key && i < table->option_count; i++)
		if (!strcmp(table->options[i].key, key)) {
			snprintf(name, 128, "%s.%s", table->name, key);
			return observer->config;
		}
	return NULL;
}

static const char *observer_option(const coll_observer_host_t *host, const char *key)
{
	char name[128];
	const struct config *config = observer_find(host, key, name);

	return config ? config_string(config, name) : NULL;
}

static int64_t observer_option_int(const coll_observer_host_t *host, const char *key)
{
	char name[128];
	const struct config *config = observer_find(host, key, name);

	return config ? config_int(config, name) : 0;
}

static void observer_log(const coll_observer_host_t *host, int32_t level, const char *text)
{
	const struct log_about about = {.place = observer_of(host)->log};

	log_plugin(&about, level, observer_of(host)->table->name, text);
}

static coll_result_t observer_expand(const coll_observer_host_t *host, const char *pattern,
				     char *out, uint64_t out_size, coll_error_t *err)
{
	const struct path_names names = {.host = host->host_name,
					 .rank = host->rank,
					 .pid = (long)getpid(),
					 .job = observer_of(host)->job};
	char why[300];

	if (!pattern || !out)
		return error_fill(err, COLL_ERR_INVALID_ARGUMENT,
				  "expand: %s is NULL, but must be %s", pattern ? "out" : "pattern",
				  pattern ? "a buffer for the path"
					  : "a path with %h, %r, %p or %j");
	if (!path_pattern_check(pattern, "hrpj", why, sizeof(why)) &&
	    !path_pattern_expand(pattern, &names, out, (size_t)out_size, why, sizeof(why)))
		return COLL_SUCCESS;
	return error_fill(err, COLL_ERR_INVALID_ARGUMENT, "the path '%.300s': %s", pattern, why);
}

static void observer_want(const coll_observer_host_t *host, uint32_t wants)
{
	struct observer *observer = (struct observer *)(uintptr_t)host;

	if (observer->config)
		observer->wants = observer->table->wants & wants;
}

/* ---------------------------------------------------------------- opening, closing -- */

static void observer_warn(const struct config *config, const char *name, const char *reason)
{
	const char *by = !strcmp(name, "timeline") && config_is_set(config, "timeline")
				 ? "timeline"
				 : "observers";
	const struct log_about about = config_log_about(config, LOG_SUBSYSTEM);

	log_about(&about, COLL_LOG_WARN, "observer '%s', which %s names, is not used: %s", name,
		  config_source(config, by), reason);
}

/* Returns an open observer, or NULL with a warning. */
static struct observer *observer_open(const struct plugin *plugin, const struct config *config,
				      const struct observe_place *place)
{
	struct observer *observer = malloc(sizeof(*observer));
	coll_error_t err;
	int code;

	error_clear(&err);
	if (!observer) {
		observer_warn(config, plugin->name, "no memory");
		return NULL;
	}
	*observer = (struct observer){.host = {.size = sizeof(observer->host),
					       .abi_minor = COLL_OBSERVER_ABI_MINOR,
					       .rank = place->rank,
					       .nranks = place->nranks,
					       .host_name = place->host,
					       .backend = place->backend,
					       .option = observer_option,
					       .log = observer_log,
					       .expand = observer_expand,
					       .option_int = observer_option_int,
					       .kind_name = coll_kind_name,
					       .dtype_name = coll_dtype_name,
					       .op_name = coll_op_name,
					       .error_text = coll_error_string,
					       .want = observer_want},
				      .table = &plugin->observer,
				      .wants = plugin->observer.wants,
				      .config = config,
				      .log = config_log_about(config, NULL).place,
				      .job = place->job};
	code = plugin->observer.open(&observer->host, &observer->state, &err);
	observer->config = NULL;
	if (!code)
		return observer;
	error_take(code, &err);
	observer_warn(config, plugin->name, error_text());
	free(observer);
	return NULL;
}

static void observe_add(struct observers *observers, struct observer *observer)
{
	if (!(observer->table->flags & COLL_OBSERVER_TERSE))
		observer->wants |= OBSERVE_ALL;
	observers->item[observers->count++] = observer;
	observers->wanted |= observer->wants;
}

static void observe_open(struct observers *observers, const struct plugin *plugin, const char *name,
			 const struct config *config, const struct observe_place *place)
{
	struct observer *observer = NULL;

	if (!plugin || plugin->code)
		observer_warn(config, name, plugin ? plugin->reason : "no memory");
	else
		observer = observer_open(plugin, config, place);
	if (observer)
		observe_add(observers, observer);
}

/* The library's own observer, for log lines about calls. */
static void observe_open_log(struct observers *observers, const struct config *config,
			     uint32_t wants)
{
	struct observer *observer = wants ? calloc(1, sizeof(*observer)) : NULL;

	if (!observer)
		return;
	observer->table = &log_events_observer;
	observer->wants = wants;
	observer->log = config_log_about(config, NULL).place;
	observer->state = &observer->log;
	observe_add(observers, observer);
}

struct observers *observers_open(const struct plugin_list *plugins, const struct config *config,
				 const struct observe_place *place)
{
	static pthread_once_t watched = PTHREAD_ONCE_INIT;
	const uint32_t logged = log_events_wanted();
	const size_t most = plugins_most_observers(config) + (logged != 0);
	struct observers *observers =
		most ? calloc(1, sizeof(*observers) + most * sizeof(observers->item[0])) : NULL;
	struct observer_names names;
	char name[64];

	if (!observers)
		return NULL;
	pthread_once(&watched, observe_watch);
	observers->forks = observe_forks;
	observe_open_log(observers, config, logged);
	plugins_begin_observers(&names, config);
	while (plugins_next_observer(&names, name))
		observe_open(observers, plugins_find_observer(plugins, name), name, config, place);
	if (observers->count)
		return observers;
	free(observers);
	return NULL;
}

void observers_close(struct observers *observers)
{
	CANCEL_OFF;

	for (uint32_t i = 0; observers && i < observers->count; i++) {
		struct observer *observer = observers->item[i];

		if (observers->forks == observe_forks)
			observer->table->close(observer->state);
		free(observer);
	}
	free(observers);
}

/* ------------------------------------------------------------------------ events -- */

uint32_t observers_wanted(const struct observers *observers)
{
	return observers ? observers->wanted : 0;
}

uint32_t observers_count(const struct observers *observers)
{
	return observers ? observers->count : 0;
}

const char *observers_name(const struct observers *observers, uint32_t number)
{
	return number && number <= observers_count(observers)
		       ? observers->item[number - 1]->table->name
		       : NULL;
}

/* Turning cancellation off and on costs as much as some observers' event(). */
__attribute__((noinline)) static void observer_tell_safely(const struct observer *observer,
							   const coll_observed_t *event)
{
	CANCEL_OFF;

	observer->table->event(observer->state, event);
}

void observers_tell(const struct observers *observers, _Atomic uint32_t *inside,
		    const coll_observed_t *event, uint32_t more)
{
	const uint32_t bits = event->what | more;
	int *const error = &errno; /* the address costs a call */
	const int before = *error;

	if (observers->forks != observe_forks)
		return;
	for (uint32_t i = 0; i < observers->count; i++) {
		const struct observer *observer = observers->item[i];

		if ((observer->wants & bits) != bits)
			continue;
		atomic_store_explicit(inside, i + 1, memory_order_relaxed);
		if (observer->table->flags & COLL_OBSERVER_UNCANCELLED)
			observer->table->event(observer->state, event);
		else
			observer_tell_safely(observer, event);
		atomic_store_explicit(inside, 0, memory_order_relaxed);
	}
	*error = before;
}
