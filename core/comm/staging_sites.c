/* SPDX-License-Identifier: BSD-3-Clause */
/* staging_sites.c - the places in a program that stage operations: each place has one warning, later operations are counted. */
#include "comm/staging_sites.h"
#include "comm/counts.h"
#include "comm/lane_log.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local const void *staging_set; /* by staging_set_site; NULL: none */

void staging_set_site(const void *site)
{
	staging_set = site;
}

const void *staging_site(const void *caller)
{
	return staging_set ? staging_set : caller;
}

/* A place whose staged operations of a kind have had their warning. */
struct staging_site {
	struct staging_site *next;
	const void *site;
	int kind;
};

/* A program that makes its code as it runs may call from any number of places. */
enum { STAGING_SITES = 64 };

/* The kinds of messages outside the order of the operations. */
enum { STAGING_ISEND = KIND_LAST + 1, STAGING_IRECV = KIND_LAST + 2, STAGING_KINDS };

struct staging_sites {
	uint64_t staged[STAGING_KINDS]; /* per kind: how many operations were staged */
	struct staging_site *first;
};

static const char *staging_kind_name(int kind)
{
	return kind == STAGING_ISEND ? "isend" : kind == STAGING_IRECV ? "irecv" : kind_name(kind);
}

static int staging_is_first(struct staging_sites *sites, int kind, const void *place)
{
	struct staging_site **at = &sites->first;
	int n = 0;

	for (; *at; at = &(*at)->next, n++)
		if ((*at)->site == place && (*at)->kind == kind)
			return 0;
	if (n == STAGING_SITES)
		return 0;
	*at = malloc(sizeof(**at));
	if (*at)
		**at = (struct staging_site){NULL, place, kind};
	return 1;
}

void staging_free_sites(struct lane *lane)
{
	struct staging_site *site;

	while (lane->staging_sites && (site = lane->staging_sites->first)) {
		lane->staging_sites->first = site->next;
		free(site);
	}
	free(lane->staging_sites);
	lane->staging_sites = NULL;
}

/*
 * Calls that an interpreter makes by libffi return to libffi, or to the file that has it inside, whatever line of the
 * program has made them.
 */
static int staging_is_interpreter(const char *path)
{
	static const char *const names[] = {"libffi", "_ctypes", "_cffi", "libpython", "python"};
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(name, names[i], strlen(names[i])) == 0)
			return 1;
	return 0;
}

/* Numbers that a program gives to its places: no code has such an address. */
enum { STAGING_NUMBERS = 65536 };

/* Writes " (called at ./train+0x4711)", in the form that addr2line takes. */
static void staging_name_site(const void *site, char *text, size_t size)
{
	const unsigned long address = (uintptr_t)site;
	Dl_info where;

	text[0] = '\0';
	if (!site)
		return;
	if (address < STAGING_NUMBERS)
		snprintf(text, size, " (called at place %lu)", address);
	else if (!dladdr(site, &where) || !where.dli_fname)
		snprintf(text, size, " (called at 0x%lx)", address);
	else if (staging_is_interpreter(where.dli_fname))
		snprintf(text, size,
			 " (called by an interpreter: coll_set_call_site can name the place)");
	else
		snprintf(text, size, " (called at %s+0x%lx)", where.dli_fname,
			 address - (unsigned long)(uintptr_t)where.dli_fbase);
}

void staging_log(const struct lane *lane, int kind, const void *place, size_t from, size_t to)
{
	struct rank_name name;
	char site[256];

	staging_name_site(place, site, sizeof(site));
	lane_log(
		lane, COLL_LOG_WARN,
		"%s: %s over backend '%s' copies %zu bytes from and %zu bytes to CUDA memory "
		"through host memory, which is slow; 'enable_gpu_fallback = no' makes it an error; "
		"later ones of this call%s are only counted",
		comm_own_name(lane, &name), staging_kind_name(kind),
		lane->context->plugin->backend.name, from, to, site);
}

int staging_count_one(struct lane *lane, int kind, const void *site)
{
	lane->stages_sends |= kind == COLL_KIND_SEND;
	if (lane->counts)
		lane->counts->staged++;
	if (!lane->staging_sites)
		lane->staging_sites = calloc(1, sizeof(*lane->staging_sites));
	if (!lane->staging_sites)
		return 0;
	lane->staging_sites->staged[kind]++;
	return staging_is_first(lane->staging_sites, kind, site);
}

void staging_warn_message(struct lane *lane, int kind, const void *site, size_t bytes)
{
	const int sends = kind == COLL_KIND_SEND;

	kind = sends ? STAGING_ISEND : STAGING_IRECV;
	if (staging_count_one(lane, kind, site))
		staging_log(lane, kind, site, sends ? bytes : 0, sends ? 0 : bytes);
}

void staging_count(const struct lane *lane, char *text, size_t size)
{
	const struct staging_sites *sites = lane->staging_sites;
	size_t at = 0;

	text[0] = '\0';
	for (int kind = 0; sites && kind < STAGING_KINDS && at < size; kind++)
		if (sites->staged[kind])
			at += (size_t)snprintf(text + at, size - at, "%s%llu %s", at ? ", " : "",
					       (unsigned long long)sites->staged[kind],
					       staging_kind_name(kind));
}
