/* SPDX-License-Identifier: BSD-3-Clause */
/* config_fuzz.c - a configuration file; the input is its bytes. */
#include "fuzz.h"
#include "algorithm/selection.h"
#include "base/error.h"
#include "config/config_impl.h"

#include <coll/introspect.h>

const char *const fuzz_name = "config";
const long fuzz_runs = 15000;

static const coll_option_t net_options[] = {
	{.key = "interface", .fallback = "", .type = COLL_OPTION_STRING},
	{.key = "lanes", .fallback = "2", .type = COLL_OPTION_INT, .min = 1, .max = 64},
	{.key = "buffer", .type = COLL_OPTION_BYTES, .min = 0, .max = 1 << 30},
	{.key = "wait", .fallback = "1s", .type = COLL_OPTION_DURATION, .max = 1 << 30},
	{.key = "fast", .fallback = "no", .type = COLL_OPTION_BOOL},
};

/* Whatever is in the file, every option has a value of its type. */
static void check_values(const struct config *config)
{
	coll_option_info_t info = {.size = sizeof(info)};
	int64_t lanes = config_int(config, "net.lanes");
	struct selection selection;

	fuzz_promise(lanes >= 1 && lanes <= 64, "an option's value is in its range");
	for (int i = 0; i < config_count(config); i++)
		config_describe(config, i, &info);
	for (int i = 0; i < config_diagnostic_count(config); i++)
		fuzz_promise(config_diagnostic(config, i)[0] != '\0', "a diagnostic has a text");
	fuzz_promise(choose_compile(config, &selection) == COLL_SUCCESS,
		     "rules that were accepted can be compiled");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config *config = fuzz_memory(sizeof(*config));
	FILE *stream = size ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;

	error_set(COLL_SUCCESS, "%s", "");
	config->check = rules_check_option;
	if (stream) {
		config_read_stream(config, "fuzz.conf", stream);
		fclose(stream);
	}
	config_declare_core(config);
	if (config_status(config))
		fuzz_promise(error_text()[0] != '\0', "a refused file has a text");
	config_declare(config, "net", net_options, sizeof(net_options) / sizeof(net_options[0]));
	config_check_sections(config);
	check_values(config);
	config_free(config);
	return 0;
}
