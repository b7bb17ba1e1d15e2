/* SPDX-License-Identifier: BSD-3-Clause */
/* application.c - initializes the application's struct, and reads a struct of any version's size. */
#include "config/config.h"
#include "base/error.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

/* The size of every version's struct is a multiple of 8 bytes, and at most this. */
enum { CONFIG_APP_SMALLEST = 16, CONFIG_APP_LARGEST = 4096 };

static int config_app_size_ok(uint64_t size)
{
	return size >= CONFIG_APP_SMALLEST && size <= CONFIG_APP_LARGEST && size % 8 == 0;
}

static coll_config_t config_app_blank(void)
{
	coll_config_t blank = {
		.size = sizeof(blank), .timeout_ms = -1, .init_timeout_ms = -1, .device = -1};

	return blank;
}

coll_result_t coll_config_init(coll_config_t *config, size_t size)
{
	const coll_config_t blank = config_app_blank();

	if (!config)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_config_init: config is NULL");
	if (!config_app_size_ok(size))
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_config_init: size is %zu, expected sizeof(coll_config_t), "
				 "which is %zu here",
				 size, sizeof(blank));
	memset(config, 0, size);
	memcpy(config, &blank, size < sizeof(blank) ? size : sizeof(blank));
	config->size = size;
	return COLL_SUCCESS;
}

int config_app(const coll_config_t *in, coll_config_t *out)
{
	*out = config_app_blank();
	if (!in)
		return COLL_SUCCESS;
	if (!config_app_size_ok(in->size))
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "the coll_config_t has the size %" PRIu64
				 ": call coll_config_init(&config, sizeof(config)) before its "
				 "fields are set",
				 in->size);
	memcpy(out, in, in->size < sizeof(*out) ? in->size : sizeof(*out));
	out->size = sizeof(*out);
	if (out->reserved == 0)
		return COLL_SUCCESS;
	*out = config_app_blank();
	return error_set(COLL_ERR_INVALID_ARGUMENT,
			 "`reserved` of the coll_config_t is not 0: call coll_config_init first");
}
