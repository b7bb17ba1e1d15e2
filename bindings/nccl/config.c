/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * config.c - the structs by which a program configures a communicator, a call and the encryption.  A struct of a later
 * NCCL is longer: of each one this library takes the members that it knows, and defaults stand for the members that the
 * program does not know.
 */
#include "dropin.h"

#include <coll/introspect.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* NCCL refuses a pre-shared key that is shorter. */
enum { PSK_BYTES_MIN = 32 };

static atomic_int encrypts;

/* Each struct begins with its size. */
static void config_take(void *known, size_t known_size, const void *given)
{
	size_t size;

	memcpy(&size, given, sizeof(size));
	memcpy(known, given, size < known_size ? size : known_size);
}

static ncclResult_t config_bare(const char *function, const char *initializer)
{
	return fail(ncclInvalidArgument, "%s: config was not initialized with %s", function,
		    initializer);
}

ncclResult_t config_check(const char *function, const ncclConfig_t *config)
{
	ncclConfig_t known = NCCL_CONFIG_INITIALIZER;

	if (!config)
		return ncclSuccess;
	known.magic = 0;
	config_take(&known, sizeof(known), config);
	if (known.magic != (unsigned)NCCL_API_MAGIC)
		return config_bare(function, "NCCL_CONFIG_INITIALIZER");
	if (known.blocking != NCCL_CONFIG_UNDEF_INT && known.blocking != 0 && known.blocking != 1)
		return fail(ncclInvalidArgument, "%s: config->blocking is %d, not 0 or 1", function,
			    known.blocking);
	return ncclSuccess;
}

/* ------------------------------------------------------------------- algorithms -- */

/*
 * The index of libcoll's algorithm of this name for the kind, or -1.  NCCL's RING, with a protocol or without, is the
 * ring, and of broadcast and reduce the chain.
 */
static int32_t algorithm_named(const char *name, size_t n, int32_t kind)
{
	const int rooted = kind == COLL_KIND_BROADCAST || kind == COLL_KIND_REDUCE;
	coll_algorithm_info_t info = {.size = sizeof(info)};

	if (n >= 4 && !strncasecmp(name, "ring", 4) && (n == 4 || name[4] == '_')) {
		name = rooted ? "chain" : "ring";
		n = strlen(name);
	}
	for (int32_t i = 0; i < coll_algorithm_count(); i++)
		if (!coll_algorithm(i, &info) && info.kind == kind && strlen(info.name) == n &&
		    !strncasecmp(info.name, name, n))
			return i;
	return -1;
}

/*
 * Notes libcoll's algorithms among the names, which are separated by commas, in their order, and returns their number.
 * algorithms: NULL, or room for ALGORITHMS_MAX and a 0.
 */
static int algorithms_named(const char *names, int32_t kind, uint32_t *algorithms)
{
	int n = 0;

	while (*names && n < ALGORITHMS_MAX) {
		size_t length;
		int32_t found;

		names += strspn(names, " ,");
		length = strcspn(names, " ,");
		found = length ? algorithm_named(names, length, kind) : -1;
		if (found >= 0 && algorithms)
			algorithms[n] = (uint32_t)(found + 1) << COLL_ARGS_ALGORITHM;
		n += found >= 0;
		names += length;
	}
	return n;
}

/*
 * Has the call take an algorithm of the selection, "ring,tree" or "^symk".  Returns 0 if it cannot.  libcoll's rules never
 * take the algorithms that only NCCL has, so that a call without these may take any.
 */
static int algorithm_select(const char *selection, struct operation *operation)
{
	if (selection[0] == '^')
		return !algorithms_named(selection + 1, operation->args.kind, NULL);
	return algorithms_named(selection, operation->args.kind, operation->algorithms) > 0;
}

/* --------------------------------------------------------------------- of a call -- */

static ncclResult_t config_check_values(const char *function, const ncclCollConfig_t *config)
{
	if (config->forceAlgSelection != 0 && config->forceAlgSelection != 1)
		return fail(ncclInvalidArgument, "%s: config->forceAlgSelection is %d, not 0 or 1",
			    function, config->forceAlgSelection);
	if (config->CTAPolicy != NCCL_CONFIG_UNDEF_INT && config->CTAPolicy & ~NCCL_CTA_POLICY_ALL)
		return fail(ncclInvalidArgument,
			    "%s: config->CTAPolicy is %d, not a combination of 1 and 2", function,
			    config->CTAPolicy);
	return ncclSuccess;
}

static ncclResult_t config_take_values(const char *function, const ncclCollConfig_t *config,
				       struct operation *operation)
{
	const char *selection = config->algSelection;

	operation->launched = config->launchCompletionEvent;
	operation->args.tag = (uint32_t)config->userProfilerTag;
	operation->optional = !config->forceAlgSelection;
	if (!selection || !selection[0] || algorithm_select(selection, operation) ||
	    operation->optional)
		return ncclSuccess;
	return fail(ncclInvalidArgument,
		    "%s: config->algSelection \"%s\" cannot be honored: `coll info --algorithms` "
		    "lists libcoll's algorithms; set forceAlgSelection to 0 to let it choose",
		    function, selection);
}

ncclResult_t config_apply(const char *function, const ncclCollConfig_t *config,
			  struct operation *operation)
{
	ncclCollConfig_t known = NCCL_COLLCONFIG_INITIALIZER;
	ncclResult_t code;

	if (!config)
		return ncclSuccess;
	known.magic = 0;
	config_take(&known, sizeof(known), config);
	if (known.magic != (unsigned)NCCL_API_MAGIC)
		return config_bare(function, "NCCL_COLLCONFIG_INITIALIZER");
	code = config_check_values(function, &known);
	return code ? code : config_take_values(function, &known, operation);
}

/* -------------------------------------------------------------------- encryption -- */

static ncclResult_t encryption_check(const ncclEncryptionConfig_t *config)
{
	if (config->magic != (unsigned)NCCL_API_MAGIC)
		return config_bare("ncclSetEncryption", "NCCL_ENCRYPTION_CONFIG_INITIALIZER");
	if (config->mode == NCCL_ENCRYPTION_MODE_NONE)
		return ncclSuccess;
	if (config->mode != NCCL_ENCRYPTION_MODE_PSK)
		return fail(ncclInvalidArgument,
			    "ncclSetEncryption: config->mode is %d, not 0 or 1", config->mode);
	if (!config->psk || strlen(config->psk) < PSK_BYTES_MIN)
		return fail(ncclInvalidArgument,
			    "ncclSetEncryption: config->psk needs at least %d bytes",
			    PSK_BYTES_MIN);
	return ncclSuccess;
}

/*
 * The communicators that the program makes later encrypt what travels between hosts.  Their key comes from the unique id and
 * not from the program's, since the id is what libcoll's ranks share before they meet.
 */
ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t *config)
{
	ncclResult_t code = config ? encryption_check(config) : ncclSuccess;
	int wanted = config && config->mode == NCCL_ENCRYPTION_MODE_PSK;

	if (code)
		return code;
	if (wanted && !atomic_load(&encrypts))
		fprintf(stderr,
			"libcoll's NCCL: ncclSetEncryption: the key of the encryption is in "
			"the unique id, and config->psk adds nothing to it: keep the id secret\n");
	atomic_store(&encrypts, wanted);
	return ncclSuccess;
}
NCCL_ALSO(ncclSetEncryption);

int config_encrypts(void)
{
	return atomic_load(&encrypts);
}
