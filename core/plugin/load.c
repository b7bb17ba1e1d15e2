/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * load.c - opens one plugin file, if this process may trust the file and its ABI fits, checks the plugin's table and
 * copies it into the core's structs.
 */
#include "plugin/loader.h"
#include "base/log.h"
#include "plugin/plugin_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------- frozen sizes of ABI 1.0 -- */

/* The end of each struct's last member in minor 0: these members never change. */
#define PLUGIN_BACKEND_MIN   (offsetof(coll_backend_t, info) + sizeof(void (*)(void)))
#define PLUGIN_TRANSPORT_MIN (offsetof(coll_transport_t, forked) + sizeof(void (*)(void)))
#define PLUGIN_NATIVE_MIN    (offsetof(coll_native_t, handle) + sizeof(void (*)(void)))
#define PLUGIN_OPTION_MIN    (offsetof(coll_option_t, reserved) + sizeof(int32_t))

enum { PLUGIN_OPTIONS_MOST = 1000, PLUGIN_MAJORS = 10 };

int plugin_name_ok(const char *name)
{
	size_t n = strnlen(name, PLUGIN_NAME_LONGEST + 1);

	return n >= 1 && n <= PLUGIN_NAME_LONGEST && name[0] >= 'a' && name[0] <= 'z' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

int plugin_copy(struct plugin *plugin, const char *type, void *copy, uint64_t own, const void *from,
		uint64_t size, uint64_t least)
{
	if (size < least)
		return plugin_refuse(plugin, COLL_ERR_ABI,
				     "'%s': the size of its %s is %" PRIu64
				     ", but in ABI %d.0 it is %" PRIu64
				     " at least; set .size = sizeof(%s) and build it with this %s",
				     plugin->path, type, size, plugin->kind->major, least, type,
				     plugin->kind->header);
	memcpy(copy, from, size < own ? size : own);
	return COLL_SUCCESS;
}

/* ------------------------------------------------------------------ the groups -- */

int plugin_missing(struct plugin *plugin, const char *member)
{
	return plugin_refuse(plugin, COLL_ERR_ABI, "'%s' leaves %s empty, but it is mandatory",
			     plugin->path, member);
}

/* Refuses a plugin with one of two functions that it must have both or none. */
static int plugin_half(struct plugin *plugin, int a, int b, const char *name_a, const char *name_b)
{
	if (!a == !b)
		return COLL_SUCCESS;
	return plugin_refuse(plugin, COLL_ERR_ABI,
			     "'%s' has %s but leaves %s NULL: it must have both or none",
			     plugin->path, a ? name_a : name_b, a ? name_b : name_a);
}

/* Returns 1 and refuses the plugin if `plugin->group` lacks the function a, or has a function without its counterpart. */
#define PLUGIN_LACKS(group, a) (!plugin->group.a && plugin_missing(plugin, #group "->" #a))
#define PLUGIN_HALF(group, a, b)                                                                   \
	plugin_half(plugin, plugin->group.a != NULL, plugin->group.b != NULL, #group "->" #a,      \
		    #group "->" #b)

static int plugin_check_transport(struct plugin *plugin)
{
	if (PLUGIN_LACKS(transport, send) || PLUGIN_LACKS(transport, progress) ||
	    PLUGIN_HALF(transport, cancel, drop) || PLUGIN_HALF(transport, wait_fd, arm) ||
	    PLUGIN_HALF(transport, mem_register, mem_deregister) ||
	    PLUGIN_HALF(transport, mem_alloc, mem_free) || PLUGIN_HALF(transport, send_more, flush))
		return plugin->code;
	return COLL_SUCCESS;
}

static int plugin_check_events(struct plugin *plugin)
{
	const coll_native_t *n = &plugin->native;
	const int have = (n->event_create != NULL) + (n->event_destroy != NULL) +
			 (n->event_record != NULL) + (n->event_wait != NULL) +
			 (n->event_query != NULL) + (n->event_synchronize != NULL);

	if (have == 0 || have == 6)
		return COLL_SUCCESS;
	return plugin_refuse(
		plugin, COLL_ERR_ABI,
		"'%s' fills %d of the 6 native->event_* functions: it must fill all or "
		"none",
		plugin->path, have);
}

static int plugin_check_native(struct plugin *plugin)
{
	if (PLUGIN_LACKS(native, query) || PLUGIN_HALF(native, group_begin, group_end) ||
	    PLUGIN_HALF(native, mem_register, mem_deregister) ||
	    PLUGIN_HALF(native, mem_alloc, mem_free) ||
	    PLUGIN_HALF(native, op_create_pre_mul_sum, op_destroy))
		return plugin->code;
	return plugin_check_events(plugin);
}

static int plugin_check_flags(struct plugin *plugin, const coll_backend_t *own)
{
	const char *lacks = !own->transport             ? "no transport"
			    : !plugin->native.split     ? "leaves native->split NULL"
			    : !plugin->transport.cancel ? "leaves transport->cancel and "
							  "transport->drop NULL"
							: NULL;

	if (!(own->flags & COLL_BACKEND_NATIVE_SPLIT) || !lacks)
		return COLL_SUCCESS;
	return plugin_refuse(plugin, COLL_ERR_ABI,
			     "'%s' has the flag COLL_BACKEND_NATIVE_SPLIT, but %s", plugin->path,
			     lacks);
}

static int plugin_take_groups(struct plugin *plugin, const coll_backend_t *own)
{
	int code = COLL_SUCCESS;

	if (!own->transport && !own->native)
		return plugin_refuse(
			plugin, COLL_ERR_ABI,
			"'%s' has neither a transport nor a native group: it must have one",
			plugin->path);
	if (own->transport)
		code = plugin_copy(plugin, "coll_transport_t", &plugin->transport,
				   sizeof(plugin->transport), own->transport, own->transport->size,
				   PLUGIN_TRANSPORT_MIN);
	if (!code && own->transport)
		code = plugin_check_transport(plugin);
	if (!code && own->native)
		code = plugin_copy(plugin, "coll_native_t", &plugin->native, sizeof(plugin->native),
				   own->native, own->native->size, PLUGIN_NATIVE_MIN);
	if (!code && own->native)
		code = plugin_check_native(plugin);
	return code ? code : plugin_check_flags(plugin, own);
}

/* ----------------------------------------------------------------- the options -- */

static int plugin_check_options(struct plugin *plugin, const coll_option_t *options, uint32_t count,
				uint32_t size)
{
	if (count > PLUGIN_OPTIONS_MOST)
		return plugin_refuse(plugin, COLL_ERR_ABI,
				     "'%s' declares %" PRIu32
				     " options, but at most %d are allowed",
				     plugin->path, count, PLUGIN_OPTIONS_MOST);
	if (!options)
		return plugin_refuse(plugin, COLL_ERR_ABI,
				     "'%s' declares %" PRIu32 " options but leaves `options` NULL",
				     plugin->path, count);
	if (size < PLUGIN_OPTION_MIN || size % sizeof(int64_t))
		return plugin_refuse(plugin, COLL_ERR_ABI,
				     "'%s': its option_size is %" PRIu32
				     ", but in ABI %d.0 it is %zu at least; set .option_size = "
				     "sizeof(coll_option_t)",
				     plugin->path, size, plugin->kind->major, PLUGIN_OPTION_MIN);
	return COLL_SUCCESS;
}

int plugin_take_options(struct plugin *plugin, const coll_option_t **options, uint32_t count,
			uint32_t *size)
{
	const char *from = (const char *)*options;
	const size_t stride = *size;
	int code;

	if (!count)
		return COLL_SUCCESS;
	code = plugin_check_options(plugin, *options, count, *size);
	if (code)
		return code;
	plugin->options = calloc(count, sizeof(*plugin->options));
	if (!plugin->options)
		return plugin_refuse(plugin, COLL_ERR_NO_MEMORY, "no memory to load '%s'",
				     plugin->path);
	for (uint32_t i = 0; i < count; i++)
		memcpy(&plugin->options[i], from + i * stride,
		       stride < sizeof(coll_option_t) ? stride : sizeof(coll_option_t));
	*options = plugin->options;
	*size = sizeof(coll_option_t);
	return COLL_SUCCESS;
}

/* ------------------------------------------------------------------- the table -- */

int plugin_check_name(struct plugin *plugin, const char *name)
{
	if (!name)
		return plugin_missing(plugin, "`name`");
	if (!plugin_name_ok(name))
		return plugin_refuse(plugin, COLL_ERR_ABI,
				     "'%s' calls itself '%.40s': a name is made of a-z, 0-9 and "
				     "'_', begins with a letter and has at most %d bytes",
				     plugin->path, name, PLUGIN_NAME_LONGEST);
	if (strcmp(name, plugin->name) != 0)
		return plugin_refuse(plugin, COLL_ERR_ABI,
				     "'%s' holds the %s '%s': the file must be called "
				     "%s%s.so",
				     plugin->path, plugin->kind->noun, name, plugin->kind->prefix,
				     name);
	return COLL_SUCCESS;
}

static int plugin_check_table(struct plugin *plugin, const coll_backend_t *own)
{
	int code = plugin_check_name(plugin, own->name);

	if (code)
		return code;
	if (!own->version || !own->version[0])
		return plugin_missing(plugin, "`version`");
	if (!own->open)
		return plugin_missing(plugin, "`open`");
	if (!own->close)
		return plugin_missing(plugin, "`close`");
	if (!own->memory)
		return plugin_refuse(plugin, COLL_ERR_ABI,
				     "'%s' takes no kind of memory: set .memory to COLL_MEM_* bits",
				     plugin->path);
	return COLL_SUCCESS;
}

int plugin_take(struct plugin *plugin, const void *exported)
{
	const coll_backend_t *table = exported;
	coll_backend_t own = {0};
	int code = plugin_copy(plugin, plugin->kind->type, &own, sizeof(own), table, table->size,
			       PLUGIN_BACKEND_MIN);

	if (!code)
		code = plugin_check_table(plugin, &own);
	if (!code)
		code = plugin_take_groups(plugin, &own);
	if (!code)
		code = plugin_take_options(plugin, &own.options, own.option_count,
					   &own.option_size);
	if (code)
		return code;
	if (!own.description)
		own.description = "";
	plugin->backend = own;
	plugin->priority = own.priority;
	return COLL_SUCCESS;
}

/* ---------------------------------------------------------------- permissions -- */

/*
 * Judges the path without links, by which the file is opened.  Then judges the path with the directory as its
 * option names it, unless that is the same: another user's symbolic link there could lead to any directory.
 */
static int plugin_check_path(const struct plugin *plugin, struct trust *trust)
{
	const int code = trust_check(plugin->path, 1, trust);

	return code || !strcmp(plugin->path, plugin->written)
		       ? code
		       : trust_check(plugin->written, 1, trust);
}

int plugin_check_safe(struct plugin_search *search, struct plugin *plugin, struct trust *trust)
{
	const int code = plugin_check_path(plugin, trust);

	if (code)
		return plugin_refuse_error(plugin, code);
	if (trust->note[0] && !trust->by_group) {
		log_info("plugin '%s' is loaded because of COLL_TRUST: %s", plugin->path,
			 trust->note);
		plugin_note(search, "plugin '%.300s' is loaded because of COLL_TRUST: %.400s",
			    plugin->path, trust->note);
	}
	return COLL_SUCCESS;
}

/* ------------------------------------------------------------------------ ABI -- */

/* Returns the ABI major that the file was built for, or -1.  name: becomes the symbol. */
static int plugin_other_major(const struct plugin *plugin, struct loader_file *file, char name[64])
{
	char elsewhere[8];

	snprintf(name, 64, "%s", plugin->kind->symbol);
	for (int major = 0; major < PLUGIN_MAJORS; major++) {
		name[strlen(name) - 1] = (char)('0' + major);
		if (loader_symbol(file, name, elsewhere, sizeof(elsewhere)))
			return major;
	}
	return -1;
}

static int plugin_refuse_symbol(struct plugin *plugin, struct loader_file *file,
				const char *elsewhere)
{
	const struct plugin_kind *kind = plugin->kind;
	char name[64];
	const int major = plugin_other_major(plugin, file, name);

	if (major >= 0)
		return plugin_refuse(plugin, COLL_ERR_ABI,
				     "'%s' is built for %s ABI %d (it exports %s), "
				     "but libcoll %s speaks ABI %d (%s); build it with this "
				     "libcoll's %s",
				     plugin->path, kind->noun, major, name, coll_version_string(),
				     kind->major, kind->symbol, kind->header);
	if (elsewhere[0])
		return plugin_refuse(plugin, COLL_ERR_ABI,
				     "'%s' does not export %s itself: the symbol that it leads "
				     "to belongs to '%s'",
				     plugin->path, kind->symbol, elsewhere);
	return plugin_refuse(plugin, COLL_ERR_ABI,
			     "'%s' does not export %s: it is no %s, or the constant lacks %s",
			     plugin->path, kind->symbol, kind->noun, kind->export_macro);
}

void plugin_open(struct plugin *plugin, const struct trust *trust)
{
	struct loader_file *file;
	const void *table;
	char elsewhere[512];
	int code, first;

	code = loader_open(plugin->path, &file, &first);
	if (code) {
		plugin_refuse_error(plugin, code);
		return;
	}
	if (first && trust->by_group)
		log_warn("plugin '%s' can be changed by a group: %s", plugin->path, trust->note);
	table = loader_symbol(file, plugin->kind->symbol, elsewhere, sizeof(elsewhere));
	if (table)
		plugin->kind->take(plugin, table);
	else
		plugin_refuse_symbol(plugin, file, elsewhere);
}

const struct plugin_kind plugin_backends = {
	.noun = "backend",
	.file_noun = "a plugin",
	.prefix = "coll_",
	.symbol = COLL_BACKEND_SYMBOL,
	.header = "backend.h",
	.export_macro = "COLL_BACKEND_EXPORT",
	.type = "coll_backend_t",
	.major = COLL_BACKEND_ABI_MAJOR,
	.take = plugin_take,
};
