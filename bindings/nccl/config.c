/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * config.c - the structs by which a program configures a communicator, a call and the encryption.  A struct of a later
 * NCCL is longer: of each one this library takes the members that it knows, and defaults stand for the members that the
 * program does not know.
 */
#include "dropin.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

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

/* --------------------------------------------------------------------- of a call -- */

static ncclResult_t config_check_values(const char *function, const ncclCollConfig_t *config)
{
	const char *wanted = config->algSelection;

	if (config->forceAlgSelection != 0 && config->forceAlgSelection != 1)
		return fail(ncclInvalidArgument, "%s: config->forceAlgSelection is %d, not 0 or 1",
			    function, config->forceAlgSelection);
	if (config->CTAPolicy != NCCL_CONFIG_UNDEF_INT && config->CTAPolicy & ~NCCL_CTA_POLICY_ALL)
		return fail(ncclInvalidArgument,
			    "%s: config->CTAPolicy is %d, not a combination of 1 and 2", function,
			    config->CTAPolicy);
	if (wanted && wanted[0] && config->forceAlgSelection)
		return fail(
			ncclInvalidArgument,
			"%s: config->algSelection \"%s\" cannot be honored: libcoll chooses the "
			"algorithm by its own options (coll info --algorithms); set "
			"forceAlgSelection to 0",
			function, wanted);
	return ncclSuccess;
}

ncclResult_t config_check_call(const char *function, const ncclCollConfig_t *config,
			       void **launched)
{
	ncclCollConfig_t known = NCCL_COLLCONFIG_INITIALIZER;
	ncclResult_t code;

	*launched = NULL;
	if (!config)
		return ncclSuccess;
	known.magic = 0;
	config_take(&known, sizeof(known), config);
	if (known.magic != (unsigned)NCCL_API_MAGIC)
		return config_bare(function, "NCCL_COLLCONFIG_INITIALIZER");
	code = config_check_values(function, &known);
	if (!code)
		*launched = known.launchCompletionEvent;
	return code;
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
