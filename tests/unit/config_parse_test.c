/* SPDX-License-Identifier: BSD-3-Clause */
/* config_parse_test.c - typed values, declarations of options, the application's struct. */
#include "config_dir.h"

struct value {
	int32_t type;
	const char *text;
	int64_t number; /* -1: refused */
};

static int parse(const coll_option_t *spec, const char *text, int64_t *number)
{
	char why[200];

	return config_parse(spec, text, number, why, sizeof(why));
}

static void test_values(void)
{
	static const struct value values[] = {
		{COLL_OPTION_DURATION, "20us", 20},
		{COLL_OPTION_DURATION, "5ms", 5000},
		{COLL_OPTION_DURATION, "1.5s", 1500000},
		{COLL_OPTION_DURATION, "2min", 120000000},
		{COLL_OPTION_DURATION, "300", 300000000},
		{COLL_OPTION_DURATION, "0", 0},
		{COLL_OPTION_DURATION, "0.25", 250000},
		{COLL_OPTION_DURATION, "1 ms", 1000},
		{COLL_OPTION_DURATION, "0.5us", -1},
		{COLL_OPTION_DURATION, "-1s", -1},
		{COLL_OPTION_DURATION, "+1s", -1},
		{COLL_OPTION_DURATION, "1.s", -1},
		{COLL_OPTION_DURATION, ".5s", -1},
		{COLL_OPTION_DURATION, "1e3", -1},
		{COLL_OPTION_DURATION, "5 parsecs", -1},
		{COLL_OPTION_DURATION, "5ss", -1},
		{COLL_OPTION_DURATION, "s", -1},
		{COLL_OPTION_DURATION, "", -1},
		{COLL_OPTION_DURATION, "1.0000000000001s", -1},
		{COLL_OPTION_DURATION, "9223372036854775807us", INT64_MAX},
		{COLL_OPTION_DURATION, "9223372036854775808us", -1},
		{COLL_OPTION_DURATION, "9223372036854775807s", -1},
		{COLL_OPTION_DURATION, "9223372036854.775807s", INT64_MAX},
		{COLL_OPTION_DURATION, "9223372036854.775808s", -1},
		{COLL_OPTION_BYTES, "0", 0},
		{COLL_OPTION_BYTES, "4096", 4096},
		{COLL_OPTION_BYTES, "64K", 65536},
		{COLL_OPTION_BYTES, "64k", 65536},
		{COLL_OPTION_BYTES, "1.5M", 1572864},
		{COLL_OPTION_BYTES, "2G", INT64_C(2) << 30},
		{COLL_OPTION_BYTES, "1.5", -1},
		{COLL_OPTION_BYTES, "0.3K", -1},
		{COLL_OPTION_BYTES, "64KB", -1},
		{COLL_OPTION_BYTES, "8589934592G", -1},
		{COLL_OPTION_BYTES, "-1", -1},
		{COLL_OPTION_INT, "12", 12},
		{COLL_OPTION_INT, "012", 12},
		{COLL_OPTION_INT, "0x12", -1},
		{COLL_OPTION_INT, "12a", -1},
		{COLL_OPTION_INT, "--1", -1},
		{COLL_OPTION_INT, "-", -1},
		{COLL_OPTION_INT, "9223372036854775808", -1},
		{COLL_OPTION_BOOL, "yes", 1},
		{COLL_OPTION_BOOL, "True", 1},
		{COLL_OPTION_BOOL, "ON", 1},
		{COLL_OPTION_BOOL, "1", 1},
		{COLL_OPTION_BOOL, "no", 0},
		{COLL_OPTION_BOOL, "false", 0},
		{COLL_OPTION_BOOL, "off", 0},
		{COLL_OPTION_BOOL, "0", 0},
		{COLL_OPTION_BOOL, "2", -1},
		{COLL_OPTION_STRING, "anything", 0},
		{99, "x", -1},
	};
	coll_option_t spec = {.key = "x", .max = INT64_MAX};
	int64_t number;
	size_t i;

	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		spec.type = values[i].type;
		number = 42;
		if (values[i].number == -1)
			ok(parse(&spec, values[i].text, &number) && number == 42,
			   "type %d refuses '%s'", (int)spec.type, values[i].text);
		else if (ok(!parse(&spec, values[i].text, &number), "'%s' taken", values[i].text))
			is_int(number, values[i].number, "its value");
	}
	spec.type = COLL_OPTION_INT;
	spec.min = -3;
	spec.max = 3;
	ok(!parse(&spec, "-3", &number) && parse(&spec, "-4", &number) &&
		   parse(&spec, "4", &number),
	   "range");
	spec.type = COLL_OPTION_STRING;
	spec.unit = "a|bc";
	ok(!parse(&spec, "bc", &number) && number == 1, "choice");
	ok(parse(&spec, "b", &number) && parse(&spec, "a|bc", &number) && parse(&spec, "", &number),
	   "no choice");
}

static void test_bad_declarations(void)
{
	static const coll_option_t bad[] = {
		{.key = NULL, .type = COLL_OPTION_STRING},
		{.key = "", .type = COLL_OPTION_STRING},
		{.key = "Upper", .type = COLL_OPTION_STRING},
		{.key = "a.b", .type = COLL_OPTION_STRING},
		{.key = "priority", .type = COLL_OPTION_INT},
		{.key = "x", .type = 77},
		{.key = "x", .type = COLL_OPTION_INT, .fallback = "9", .min = 0, .max = 8},
	};
	struct config *config = load(NULL, 0, "for declarations");
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		is_int(config_declare(config, "net", &bad[i], 1), COLL_ERR_PLUGIN,
		       "declaration %d: %s", (int)i, error_text());
	is_int(declare_net(config), 0, "a good one afterwards");
	config_free(config);
}

static void test_struct_sizes(void)
{
	union {
		coll_config_t now;
		char room[8192];
	} app;
	struct config *config;
	coll_config_t out;

	is_int(coll_config_init(NULL, 64), COLL_ERR_INVALID_ARGUMENT, "init: NULL");
	is_int(coll_config_init(&app.now, 0), COLL_ERR_INVALID_ARGUMENT, "init: size 0");
	is_int(coll_config_init(&app.now, 20), COLL_ERR_INVALID_ARGUMENT, "init: size 20");
	memset(&app, 0xee, sizeof(app));
	is_int(coll_config_init(&app.now, 24), 0, "init: an older, smaller struct");
	ok((unsigned char)app.room[24] == 0xee && app.room[23] == 0, "nothing beyond it written");
	app.now.backend = "tcp";
	is_int(config_app(&app.now, &out), 0, "read");
	ok(out.size == sizeof(out) && strcmp(out.backend, "tcp") == 0 && !out.config_file &&
		   out.timeout_ms == -1 && out.device == -1 && !out.options,
	   "what it lacks is not said");
	memset(&app, 0xee, sizeof(app));
	is_int(coll_config_init(&app.now, sizeof(out) + 64), 0, "init: a newer, larger struct");
	ok(app.room[sizeof(out) + 63] == 0 && (unsigned char)app.room[sizeof(out) + 64] == 0xee,
	   "all of it is set");
	is_int(config_app(&app.now, &out), 0, "read");
	is_int(config_app(NULL, &out), 0, "NULL says nothing");
	is_int(out.timeout_ms, -1, "as initialised");
	memset(&app, 0, sizeof(app));
	is_int(config_app(&app.now, &out), COLL_ERR_INVALID_ARGUMENT, "size 0");
	has_str(error_text(), "call coll_config_init", "says what to do");
	config = load(&app.now, COLL_ERR_INVALID_ARGUMENT, "config_load with size 0");
	config_free(config);
	memset(&app, 0xee, sizeof(app));
	is_int(config_app(&app.now, &out), COLL_ERR_INVALID_ARGUMENT, "garbage");
	coll_config_init(&app.now, sizeof(out));
	app.now.reserved = 1;
	is_int(config_app(&app.now, &out), COLL_ERR_INVALID_ARGUMENT, "reserved is not 0");
}

int main(void)
{
	config_dir_begin();
	test_values();
	test_bad_declarations();
	test_struct_sizes();
	config_dir_end();
	return done_testing();
}
