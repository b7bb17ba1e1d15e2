/* SPDX-License-Identifier: BSD-3-Clause */
/* info_read.c - the functions of introspect.h that read the items of a coll_info_t. */
#include "introspect/info.h"
#include "base/error.h"
#include "base/handle.h"

#include <coll/backend.h>

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Returns the object, pinned until handle_unpin, or NULL with the error set. */
static struct coll_info *info_enter(coll_info_t handle, const char *what)
{
	struct coll_info *info = handle_pin(HANDLE_INFO, handle);

	if (!info)
		error_set(COLL_ERR_INVALID_ARGUMENT,
			  "%s: info is NULL, destroyed or not a coll_info_t", what);
	return info;
}

int32_t coll_info_backend_count(coll_info_t handle)
{
	struct coll_info *info = info_enter(handle, "coll_info_backend_count");
	int n;

	if (!info)
		return 0;
	n = info->plugins->count;
	handle_unpin(handle);
	return n;
}

/* Does this process know a companion for a backend without a transport? */
static int info_has_companion(const struct coll_info *info, const coll_backend_t *b)
{
	const struct plugin *companion =
		plugins_find(info->plugins, config_string(info->config, "companion"));

	return b->native && !b->transport && companion && companion->backend.transport;
}

static uint32_t info_capabilities(const struct coll_info *info, const coll_backend_t *b)
{
	uint32_t caps = info_has_companion(info, b) ? COLL_CAP_COMPANION : 0;

	caps |= b->transport ? COLL_CAP_TRANSPORT : 0;
	caps |= b->native ? COLL_CAP_NATIVE : 0;
	caps |= b->memory & COLL_MEM_HOST ? COLL_CAP_HOST_MEMORY : 0;
	caps |= b->memory & COLL_MEM_CUDA ? COLL_CAP_CUDA_MEMORY : 0;
	caps |= b->native && b->native->event_create ? COLL_CAP_STREAMS : 0;
	caps |= b->flags & COLL_BACKEND_IN_PROCESS ? COLL_CAP_IN_PROCESS : 0;
	if (b->native && (!b->transport || b->flags & COLL_BACKEND_NATIVE_SPLIT))
		caps |= COLL_CAP_NATIVE_SPLIT;
	return caps;
}

static int info_backend(const struct coll_info *info, int index, coll_backend_info_t *out)
{
	const struct plugin *p;
	coll_backend_info_t own;

	if (!out || out->size < offsetof(coll_backend_info_t, version))
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "set `size` of the coll_backend_info_t to its sizeof first");
	if (index < 0 || index >= info->plugins->count)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "backend %d does not exist: there are %d, counted from 0", index,
				 info->plugins->count);
	p = &info->plugins->item[index];
	own = (coll_backend_info_t){
		.size = out->size,
		.name = p->name,
		.version = p->backend.version ? p->backend.version : "",
		.description = info->description[index],
		.path = p->path,
		.priority_source = p->priority_source,
		.reason = p->reason,
		.choice = info->why[index],
		.priority = p->priority,
		.abi_major = p->backend.size ? COLL_BACKEND_ABI_MAJOR : 0,
		.abi_minor = p->backend.abi_minor,
		.capabilities = info_capabilities(info, &p->backend),
		.usable = p->code == COLL_SUCCESS,
		.chosen = p == info->chosen,
		.code = p->code,
	};
	memcpy(out, &own, out->size < sizeof(own) ? out->size : sizeof(own));
	return COLL_SUCCESS;
}

coll_result_t coll_info_backend(coll_info_t handle, int32_t index, coll_backend_info_t *out)
{
	struct coll_info *info = info_enter(handle, "coll_info_backend");
	int code;

	if (!info)
		return error_code();
	code = info_backend(info, index, out);
	handle_unpin(handle);
	return code;
}

int32_t coll_info_observer_count(coll_info_t handle)
{
	struct coll_info *info = info_enter(handle, "coll_info_observer_count");
	int n;

	if (!info)
		return 0;
	n = info->plugins->observer_count;
	handle_unpin(handle);
	return n;
}

static int info_names_observer(const struct coll_info *info, const char *name)
{
	struct observer_names names;
	char named[64];

	plugins_begin_observers(&names, info->config);
	while (name[0] && plugins_next_observer(&names, named))
		if (!strcmp(named, name))
			return 1;
	return 0;
}

static int info_observer(const struct coll_info *info, int index, coll_observer_info_t *out)
{
	const struct plugin *p;
	coll_observer_info_t own;

	if (!out || out->size < offsetof(coll_observer_info_t, version))
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "set `size` of the coll_observer_info_t to its sizeof first");
	if (index < 0 || index >= info->plugins->observer_count)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "observer %d does not exist: there are %d, counted from 0", index,
				 info->plugins->observer_count);
	p = &info->plugins->observer[index];
	own = (coll_observer_info_t){
		.size = out->size,
		.name = p->name,
		.version = p->observer.version ? p->observer.version : "",
		.description = p->observer.description ? p->observer.description : "",
		.path = p->path,
		.reason = p->reason,
		.abi_major = p->observer.size ? COLL_OBSERVER_ABI_MAJOR : 0,
		.abi_minor = p->observer.abi_minor,
		.wants = p->observer.wants,
		.named = info_names_observer(info, p->name),
		.code = p->code,
	};
	memcpy(out, &own, out->size < sizeof(own) ? out->size : sizeof(own));
	return COLL_SUCCESS;
}

coll_result_t coll_info_observer(coll_info_t handle, int32_t index, coll_observer_info_t *out)
{
	struct coll_info *info = info_enter(handle, "coll_info_observer");
	int code;

	if (!info)
		return error_code();
	code = info_observer(info, index, out);
	handle_unpin(handle);
	return code;
}

int32_t coll_info_option_count(coll_info_t handle)
{
	struct coll_info *info = info_enter(handle, "coll_info_option_count");
	int n;

	if (!info)
		return 0;
	n = config_count(info->config);
	handle_unpin(handle);
	return n;
}

coll_result_t coll_info_option(coll_info_t handle, int32_t index, coll_option_info_t *out)
{
	struct coll_info *info = info_enter(handle, "coll_info_option");
	int code;

	if (!info)
		return error_code();
	code = config_describe(info->config, index, out);
	handle_unpin(handle);
	return code;
}

int32_t coll_info_rule_count(coll_info_t handle)
{
	struct coll_info *info = info_enter(handle, "coll_info_rule_count");
	int n;

	if (!info)
		return 0;
	n = info_rule_count(&info->selection);
	handle_unpin(handle);
	return n;
}

coll_result_t coll_info_rule(coll_info_t handle, int32_t index, coll_rule_info_t *out)
{
	struct coll_info *info = info_enter(handle, "coll_info_rule");
	int code;

	if (!info)
		return error_code();
	code = info_rule_describe(info->config, &info->selection, index, out);
	handle_unpin(handle);
	return code;
}

coll_result_t coll_info_rule_reach(coll_info_t handle, int32_t index, int32_t nranks,
				   int32_t nnodes, int32_t *reach, const char **why)
{
	struct coll_info *info = info_enter(handle, "coll_info_rule_reach");
	int code;

	if (!info)
		return error_code();
	code = info_rule_reach(&info->selection, index, nranks, nnodes, reach, why);
	handle_unpin(handle);
	return code;
}

/* The notes: diagnostics of the configuration, then of the plugin directories, then of the choice. */
int32_t coll_info_note_count(coll_info_t handle)
{
	struct coll_info *info = info_enter(handle, "coll_info_note_count");
	int n;

	if (!info)
		return 0;
	n = config_diagnostic_count(info->config) + info->plugins->note_count +
	    (info->unknown[0] != '\0');
	handle_unpin(handle);
	return n;
}

static const char *info_note(const struct coll_info *info, int index)
{
	const int options = config_diagnostic_count(info->config);

	if (index < 0)
		return NULL;
	if (index < options)
		return config_diagnostic(info->config, index);
	if (index - options < info->plugins->note_count)
		return info->plugins->note[index - options];
	if (index - options == info->plugins->note_count && info->unknown[0])
		return info->unknown;
	return NULL;
}

const char *coll_info_note(coll_info_t handle, int32_t index)
{
	struct coll_info *info = info_enter(handle, "coll_info_note");
	const char *note;

	if (!info)
		return "";
	note = info_note(info, index);
	handle_unpin(handle);
	return note ? note : "";
}

coll_result_t coll_info_verdict(coll_info_t handle, const char **sentence)
{
	struct coll_info *info = info_enter(handle, "coll_info_verdict");
	int code;

	if (sentence)
		*sentence = info ? info->sentence : "";
	if (!info)
		return error_code();
	code = info->code ? error_set(info->code, "%s", info->sentence) : COLL_SUCCESS;
	handle_unpin(handle);
	return code;
}
