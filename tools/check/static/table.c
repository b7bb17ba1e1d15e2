/* SPDX-License-Identifier: BSD-3-Clause */
/* table.c - coll_backend_v1: sizes, mandatory slots, slots that go in pairs, strings. */
#include <stdio.h>
#include <string.h>
#include "check/host/host.h"
#include "check/static/static.h"

static const struct check_plugin *table_plugin(struct check_case *c)
{
	const char *text;

	return check_plugin(c, &text);
}

static void table_size(struct check_case *c, const char *what, uint64_t size, uint64_t least)
{
	if (size < least || size % sizeof(void *))
		check_fail(c, "the size of the plugin's %s is %llu; it must be sizeof(%s), %llu",
			   what, (unsigned long long)size, what, (unsigned long long)least);
}

static void table_sizes(struct check_case *c)
{
	const coll_backend_t *own = table_plugin(c)->own;
	const coll_backend_t *backend = &table_plugin(c)->backend;

	/* The structs of minor 0 end with these members; they never change. */
	table_size(c, "coll_backend_t", own->size,
		   offsetof(coll_backend_t, info) + sizeof(own->info));
	if (backend->transport)
		table_size(c, "coll_transport_t", backend->transport->size,
			   offsetof(coll_transport_t, forked) + sizeof(void (*)(void)));
	if (backend->native)
		table_size(c, "coll_native_t", backend->native->size,
			   offsetof(coll_native_t, handle) + sizeof(void (*)(void)));
	/*
	 * A newer minor adds members behind the members that this kit knows; a struct of an older minor cannot be larger.
	 */
	if (backend->abi_minor <= COLL_BACKEND_ABI_MINOR && own->size > sizeof(coll_backend_t))
		check_fail(c, "abi_minor is %u but the struct is larger than in that minor",
			   backend->abi_minor);
	if (backend->option_count && backend->option_size < sizeof(coll_option_t))
		check_fail(c, "option_size is %u; it must be sizeof(coll_option_t), %zu",
			   backend->option_size, sizeof(coll_option_t));
}

static void table_name(struct check_case *c)
{
	const char *name = table_plugin(c)->backend.name;
	size_t n = name ? strnlen(name, 32) : 0;

	if (!name)
		check_fail(c, "name is NULL");
	else if (n < 1 || n > 31 || name[0] < 'a' || name[0] > 'z' ||
		 strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != n)
		check_fail(c,
			   "name is '%.40s': expected a-z, 0-9 and '_', a letter first, "
			   "and at most 31 bytes",
			   name);
	else if (strcmp(name, c->options->name) != 0)
		check_fail(c, "name is '%s' but the file is coll_%s.so", name, c->options->name);
}

static void table_mandatory(struct check_case *c)
{
	const struct check_plugin *plugin = table_plugin(c);
	const coll_backend_t *backend = &plugin->backend;

	if (!backend->open)
		check_fail(c, "open is NULL");
	if (!backend->close)
		check_fail(c, "close is NULL");
	if (!backend->transport && !backend->native)
		check_fail(c, "transport and native are both NULL");
	if (backend->transport && !plugin->transport.send)
		check_fail(c, "transport->send is NULL");
	if (backend->transport && !plugin->transport.progress)
		check_fail(c, "transport->progress is NULL");
	if (backend->native && !plugin->native.query)
		check_fail(c, "native->query is NULL");
}

/* Checks that a plugin has both slots of a pair or neither. */
static void table_pair(struct check_case *c, int a, int b, const char *name_a, const char *name_b)
{
	if (!a != !b)
		check_fail(c, "%s is set but %s is NULL: set both or none", a ? name_a : name_b,
			   a ? name_b : name_a);
}

static void table_pairs(struct check_case *c)
{
	const coll_transport_t *t = &table_plugin(c)->transport;
	const coll_native_t *n = &table_plugin(c)->native;
	int events = (n->event_create != NULL) + (n->event_destroy != NULL) +
		     (n->event_record != NULL) + (n->event_wait != NULL) +
		     (n->event_query != NULL) + (n->event_synchronize != NULL);

	table_pair(c, t->cancel != NULL, t->drop != NULL, "transport->cancel", "transport->drop");
	table_pair(c, t->wait_fd != NULL, t->arm != NULL, "transport->wait_fd", "transport->arm");
	table_pair(c, t->mem_register != NULL, t->mem_deregister != NULL, "transport->mem_register",
		   "transport->mem_deregister");
	table_pair(c, t->mem_alloc != NULL, t->mem_free != NULL, "transport->mem_alloc",
		   "transport->mem_free");
	table_pair(c, t->send_more != NULL, t->flush != NULL, "transport->send_more",
		   "transport->flush");
	table_pair(c, n->group_begin != NULL, n->group_end != NULL, "native->group_begin",
		   "native->group_end");
	table_pair(c, n->mem_register != NULL, n->mem_deregister != NULL, "native->mem_register",
		   "native->mem_deregister");
	table_pair(c, n->mem_alloc != NULL, n->mem_free != NULL, "native->mem_alloc",
		   "native->mem_free");
	table_pair(c, n->op_create_pre_mul_sum != NULL, n->op_destroy != NULL,
		   "native->op_create_pre_mul_sum", "native->op_destroy");
	if (events && events != 6)
		check_fail(c, "%d of the 6 native->event_* functions are set: set all or none",
			   events);
}

static void table_bits(struct check_case *c)
{
	const coll_backend_t *backend = &table_plugin(c)->backend;
	const uint32_t kinds = COLL_MEM_HOST | COLL_MEM_CUDA | COLL_MEM_CUDA_MANAGED;
	const uint32_t flags = COLL_BACKEND_IN_PROCESS | COLL_BACKEND_BY_NAME | COLL_BACKEND_POLL |
			       COLL_BACKEND_CLOSE_TOGETHER | COLL_BACKEND_NATIVE_SPLIT |
			       COLL_BACKEND_COMPANION;

	/* A newer minor may define more bits. */
	if (!(backend->memory & kinds) ||
	    (backend->abi_minor <= COLL_BACKEND_ABI_MINOR && backend->memory & ~kinds))
		check_fail(c, "memory is 0x%x, not COLL_MEM_* bits", backend->memory);
	if (backend->abi_minor <= COLL_BACKEND_ABI_MINOR && backend->flags & ~flags)
		check_fail(c, "flags is 0x%x, not COLL_BACKEND_* bits", backend->flags);
}

static void table_string(struct check_case *c, const char *what, const char *text)
{
	if (!text || !*text)
		check_fail(c, "%s is %s", what, text ? "empty" : "NULL");
	else if (strpbrk(text, "\r\n"))
		check_fail(c, "%s is more than one line", what);
}

static void table_strings(struct check_case *c)
{
	table_string(c, "version", table_plugin(c)->backend.version);
	table_string(c, "description", table_plugin(c)->backend.description);
}

const struct check check_table_checks[] = {
	{.name = "sizes",
	 .says = "each struct begins with its size, at least that of ABI 1.0",
	 .promise = "ABI promise",
	 .group = CHECK_TABLE,
	 .ground = 1,
	 .run = table_sizes},
	{.name = "name",
	 .says = "the name is well formed and equals that of the file",
	 .promise = "coll_backend_t.name",
	 .group = CHECK_TABLE,
	 .ground = 1,
	 .run = table_name},
	{.name = "mandatory",
	 .says = "no mandatory function is NULL",
	 .promise = "coll_backend_t",
	 .group = CHECK_TABLE,
	 .ground = 1,
	 .run = table_mandatory},
	{.name = "pairs",
	 .says = "functions that belong together are all set or all NULL",
	 .promise = "coll_transport_t, coll_native_t",
	 .group = CHECK_TABLE,
	 .ground = 1,
	 .run = table_pairs},
	{.name = "bits",
	 .says = "memory and flags hold known bits",
	 .promise = "coll_backend_t.memory",
	 .group = CHECK_TABLE,
	 .ground = 1,
	 .run = table_bits},
	{.name = "strings",
	 .says = "version and description are one line each",
	 .promise = "coll_backend_t.description",
	 .group = CHECK_TABLE,
	 .ground = 1,
	 .run = table_strings},
	{.name = NULL},
};
