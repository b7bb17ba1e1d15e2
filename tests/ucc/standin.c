/* SPDX-License-Identifier: BSD-3-Clause */
/* standin.c - the stand-in for UCC: see standin.h.  Its collectives move no data and wait for no other rank. */
#include "standin.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct ucc_standin ucc_standin = {
	.makes_teams = 1, .makes_contexts = 1, .takes_tune = 1, .preconnect = -1};

/* A collective: the plugin reads its status. */
struct standin_coll {
	ucc_coll_req_t req;
	int needs_moves;
	struct standin_coll *next;
};

struct ucc_context {
	struct standin_coll *posted;
	int makes_team;
};

/* The objects that have no state. */
static int standin_object;

/* ------------------------------------------------------------------------ library -- */

void ucc_get_version(unsigned *major, unsigned *minor, unsigned *release)
{
	*major = 1;
	*minor = 6;
	*release = 0;
}

const char *ucc_get_version_string(void)
{
	return "1.6.0";
}

const char *ucc_status_string(ucc_status_t status)
{
	return status ? "No" : "Success";
}

ucc_status_t ucc_lib_config_read(const char *prefix, const char *file, ucc_lib_config_h *config)
{
	(void)prefix, (void)file;
	*config = (void *)&standin_object;
	return UCC_OK;
}

void ucc_lib_config_release(ucc_lib_config_h config)
{
	(void)config;
}

ucc_status_t ucc_init_version(unsigned major, unsigned minor, const ucc_lib_params_t *params,
			      ucc_lib_config_h config, ucc_lib_h *lib)
{
	(void)major, (void)minor, (void)params, (void)config;
	*lib = (void *)&standin_object;
	return UCC_OK;
}

ucc_status_t ucc_finalize(ucc_lib_h lib)
{
	(void)lib;
	return UCC_OK;
}

/* ----------------------------------------------------------------------- messages -- */

typedef int (*standin_handler)(const char *file, unsigned line, const char *function, int level,
			       const void *component, const char *message, va_list args);

static standin_handler standin_hears;

void ucs_log_push_handler(standin_handler handler)
{
	standin_hears = handler;
}

static void standin_write(int level, const char *message, ...)
{
	va_list args;

	va_start(args, message);
	standin_hears(__FILE__, __LINE__, __func__, level, NULL, message, args);
	va_end(args);
}

/* ------------------------------------------------------------------------ context -- */

ucc_status_t ucc_context_config_read(ucc_lib_h lib, const char *file, ucc_context_config_h *config)
{
	(void)lib, (void)file;
	*config = (void *)&standin_object;
	return UCC_OK;
}

void ucc_context_config_release(ucc_context_config_h config)
{
	(void)config;
}

ucc_status_t ucc_context_config_modify(ucc_context_config_h config, const char *component,
				       const char *name, const char *value)
{
	(void)config, (void)component;
	if (!strcmp(name, "PRECONNECT"))
		ucc_standin.preconnect = atoi(value);
	return !strcmp(name, "TUNE") && !ucc_standin.takes_tune ? UCC_ERR_INVALID_PARAM : UCC_OK;
}

ucc_status_t ucc_context_create(ucc_lib_h lib, const ucc_context_params_t *params,
				ucc_context_config_h config, ucc_context_h *context)
{
	(void)lib, (void)params, (void)config;
	if (ucc_standin.warns)
		standin_write(2, "a warning of the stand-in");
	*context = ucc_standin.makes_contexts ? calloc(1, sizeof(**context)) : NULL;
	return *context ? UCC_OK : UCC_ERR_NO_RESOURCE;
}

ucc_status_t ucc_context_destroy(ucc_context_h context)
{
	struct standin_coll *c;

	ucc_standin.contexts_ended++;
	ucc_standin.ended_early += context->makes_team;
	while ((c = context->posted)) {
		context->posted = c->next;
		free(c);
	}
	free(context);
	return UCC_OK;
}

static void standin_note_call(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	pthread_setcancelstate(before, NULL);
	ucc_standin.cancellable += before == PTHREAD_CANCEL_ENABLE;
}

ucc_status_t ucc_context_progress(ucc_context_h context)
{
	if (context->posted) /* else the plugin's own thread may move it */
		standin_note_call();
	ucc_standin.moves++;
	for (struct standin_coll *c = context->posted; c; c = c->next)
		if (c->needs_moves >= 0 && c->needs_moves-- == 0)
			c->req.status = UCC_OK;
	return UCC_OK;
}

/* --------------------------------------------------------------------------- team -- */

ucc_status_t ucc_team_create_post(ucc_context_h *contexts, uint32_t n,
				  const ucc_team_params_t *params, ucc_team_h *team)
{
	(void)n, (void)params;
	*team = calloc(1, sizeof(**team));
	if (!*team)
		return UCC_ERR_NO_MEMORY;
	(*team)->context = contexts[0];
	contexts[0]->makes_team = 1;
	return UCC_OK;
}

ucc_status_t ucc_team_create_test(ucc_team_h team)
{
	team->context->makes_team = !ucc_standin.makes_teams;
	return team->context->makes_team ? UCC_INPROGRESS : UCC_OK;
}

ucc_status_t ucc_team_destroy(ucc_team_h team)
{
	free(team);
	return UCC_OK;
}

/* -------------------------------------------------------------------- collectives -- */

ucc_status_t ucc_collective_init(ucc_coll_args_t *args, ucc_coll_req_h *req, ucc_team_h team)
{
	struct standin_coll *c = calloc(1, sizeof(*c));

	(void)args;
	standin_note_call();
	ucc_standin.collectives++;
	team->collectives++;
	if (!c)
		return UCC_ERR_NO_MEMORY;
	c->next = team->context->posted;
	team->context->posted = c;
	*req = &c->req;
	return UCC_OK;
}

ucc_status_t ucc_collective_post(ucc_coll_req_h req)
{
	struct standin_coll *c = (void *)req;

	standin_note_call();
	c->needs_moves = ucc_standin.needs_moves < 0 ? -1 : ucc_standin.needs_moves - 1;
	c->req.status = ucc_standin.needs_moves ? UCC_INPROGRESS : UCC_OK;
	return UCC_OK;
}

/* The memory stays in the list of its context. */
ucc_status_t ucc_collective_finalize(ucc_coll_req_h req)
{
	(void)req;
	standin_note_call();
	return UCC_OK;
}
