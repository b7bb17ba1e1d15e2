/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * info_test.c - the information about backends and options that an application gets without any
 * peer.
 */
#include "../lib/plugin_dir.h"

static coll_info_t make(const char *path, const char *backend)
{
	coll_config_t config;
	coll_info_t info;

	coll_config_init(&config, sizeof(config));
	config.plugin_path = path;
	config.backend = backend;
	if (coll_info_create(&config, &info))
		bail_out("coll_info_create: %s", coll_get_last_error(NULL));
	return info;
}

static coll_backend_info_t backend(coll_info_t info, const char *name)
{
	coll_backend_info_t b = {.size = sizeof(b)};

	for (int i = 0; i < coll_info_backend_count(info); i++) {
		is_int(coll_info_backend(info, i, &b), 0, "backend %d", i);
		if (!strcmp(b.name, name))
			return b;
	}
	bail_out("no backend '%s'", name);
}

static int has_note(coll_info_t info, const char *piece)
{
	for (int i = 0; i < coll_info_note_count(info); i++)
		if (strstr(coll_info_note(info, i), piece))
			return 1;
	for (int i = 0; i < coll_info_note_count(info); i++)
		diag("  note: %s", coll_info_note(info, i));
	return 0;
}

static void test_picture(void)
{
	coll_info_t info = make(dir, NULL);
	coll_backend_info_t b;
	const char *sentence;

	is_int(coll_info_backend_count(info), 4, "all files are shown");
	is_int(coll_info_verdict(info, &sentence), 0, "verdict");
	is_str(sentence,
	       "backend 'good' would be chosen: highest priority (30, plugin) of the usable "
	       "backends",
	       "in words");
	b = backend(info, "good");
	is_int(b.usable, 1, "usable");
	is_int(b.chosen, 1, "chosen");
	is_int(b.code, 0, "code");
	is_str(b.reason, "", "no reason");
	is_str(b.version, "1.0", "version");
	is_str(b.path, at("coll_good.so"), "path");
	is_str(b.priority_source, "plugin", "priority's source");
	is_int(b.abi_major, 1, "ABI");
	is_int(b.capabilities, COLL_CAP_TRANSPORT | COLL_CAP_HOST_MEMORY, "capabilities");
	has_str(b.description, "nothing is wrong with it (hello, 2 lanes", "description and info");
	b = backend(info, "unable");
	is_int(b.usable, 0, "not usable");
	is_int(b.chosen, 0, "not chosen");
	is_int(b.code, COLL_ERR_DEVICE, "code");
	has_str(b.reason, "libfabulous.so.3", "reason");
	is_int(b.priority, 90, "priority");
	is_str(b.choice, "passed over: it cannot be used", "choice");
	b = backend(info, "newer");
	is_int(b.abi_minor, 13, "minor of coll_newer.c: 7 above that of backend.h, 1.6");
	has_str(b.choice, "'good' has a higher priority", "choice");
	b = backend(info, "broken");
	is_str(b.version, "", "a refused file has no version");
	has_str(b.reason, "file too short", "but a reason");
	ok(has_note(info, "plugin directory"), "directories are noted");
	coll_info_destroy(info);
}

static void test_named(void)
{
	coll_info_t info = make(dir, "unable,good");
	const char *sentence;

	is_int(coll_info_verdict(info, &sentence), COLL_ERR_DEVICE, "named and unusable");
	has_str(sentence, "backend 'unable' cannot be used: libfabulous.so.3", "says why");
	is_str(coll_get_last_error(NULL), sentence, "also as error text");
	is_int(backend(info, "good").chosen, 0, "no silent fallback");
	coll_info_destroy(info);

	info = make(dir, "^goood");
	is_int(coll_info_verdict(info, &sentence), 0, "unknown one excluded");
	ok(has_note(info, "did you mean 'good'?"), "is noted");
	coll_info_destroy(info);

	info = make(dir, "nosuch");
	is_int(coll_info_verdict(info, NULL), COLL_ERR_NOT_FOUND, "unknown one named");
	coll_info_destroy(info);
}

/* The plugins that every build contains. */
static void test_in_process(void)
{
	const char *top = getenv("top_builddir");
	const char *sentence;
	char path[512];
	coll_info_t info;

	make_dir("real");
	for (int i = 0; i < 2; i++) {
		const char *as = i ? "real/coll_tcp.so" : "real/coll_simulated.so";

		snprintf(path, sizeof(path), "%s/.libs/%s", top ? top : ".", as + strlen("real/"));
		place_file(path, as);
	}
	strcpy(path, at("real"));
	info = make(path, NULL);
	is_int(coll_info_verdict(info, &sentence), 0, "nothing said");
	has_str(sentence, "if all ranks live in one process: 'simulated'", "both cases are told");
	is_str(backend(info, "simulated").choice,
	       "passed over: only for ranks that all live in one process; if all ranks live in one "
	       "process: chosen (priority 70)",
	       "simulated");
	ok(backend(info, "simulated").capabilities & COLL_CAP_IN_PROCESS, "its capability");
	coll_info_destroy(info);

	info = make(path, "simulated");
	is_int(coll_info_verdict(info, &sentence), 0, "named");
	has_str(sentence, "if all ranks live in one process, backend 'simulated' would be chosen",
		"under that condition");
	is_int(backend(info, "simulated").chosen, 1, "chosen");
	coll_info_destroy(info);
}

/* With a wrong value in the configuration the backends are probed all the same, and none is chosen. */
static void is_faulty(coll_info_t info, const char *what)
{
	coll_backend_info_t b = backend(info, "unable");

	is_int(b.usable, 0, "%s: not usable", what);
	has_str(b.reason, "libfabulous.so.3", "%s: the probe's reason", what);
	b = backend(info, "good");
	is_int(b.usable, 1, "%s: usable", what);
	is_int(b.chosen, 0, "%s: not chosen", what);
	is_str(b.choice, "passed over: the configuration has an error", "%s: choice", what);
}

static void test_options(void)
{
	coll_info_t info = make(dir, NULL);
	coll_option_info_t option = {.size = sizeof(option)};
	int found = 0;

	for (int i = 0; i < coll_info_option_count(info); i++) {
		if (coll_info_option(info, i, &option))
			break;
		found += !strcmp(option.name, "timeout") || !strcmp(option.name, "good.lanes");
	}
	is_int(found, 2, "core's and plugin's options are listed");
	is_int(coll_info_option(info, -1, &option), COLL_ERR_INVALID_ARGUMENT, "no such option");
	coll_info_destroy(info);

	setenv("COLL_TIMEOUT", "soon", 1);
	info = make(dir, NULL);
	is_int(coll_info_verdict(info, NULL), COLL_ERR_CONFIG, "a wrong value is the verdict");
	is_int(coll_info_backend_count(info), 4, "but the picture is whole");
	is_faulty(info, "the core's option");
	coll_info_destroy(info);
	unsetenv("COLL_TIMEOUT");

	setenv("COLL_GOOD_LANES", "many", 1);
	info = make(dir, NULL);
	is_int(coll_info_verdict(info, NULL), COLL_ERR_CONFIG, "so is one for a backend");
	is_faulty(info, "a backend's option");
	coll_info_destroy(info);
	info = make(dir, "good");
	is_int(backend(info, "unable").usable, 0, "not usable");
	has_str(backend(info, "unable").reason, "it was not opened", "since it is ruled out");
	coll_info_destroy(info);
	unsetenv("COLL_GOOD_LANES");
}

/* A plugin that is ruled out is not opened: it may crash already there. */
static void test_unopened(void)
{
	static const char *const backends[] = {"good", "^fatal", "good,^fatal"};
	coll_backend_info_t b;
	coll_info_t info;

	make_dir("fatal");
	place("coll_good.so", "fatal/coll_good.so");
	place("coll_fatal.so", "fatal/coll_fatal.so");
	setenv("STUB_FATAL", "load", 1);
	setenv("COLL_FATAL_LANES", "many", 1);
	for (int i = 0; i < 3; i++) {
		info = make(at("fatal"), backends[i]);
		b = backend(info, "fatal");
		is_int(b.usable, 0, "%s: not usable", backends[i]);
		is_int(b.code, COLL_ERR_CONFIG, "%s: its code", backends[i]);
		is_str(b.reason, "it was not opened, since application rules it out",
		       "%s: its reason", backends[i]);
		is_str(b.path, at("fatal/coll_fatal.so"), "%s: its file", backends[i]);
		is_str(b.version, "", "%s: no version", backends[i]);
		ok(!has_note(info, "COLL_FATAL_LANES"), "%s: nobody reads its options",
		   backends[i]);
		is_int(backend(info, "good").usable, i < 2, "%s: the other one", backends[i]);
		coll_info_destroy(info);
	}
	setenv("COLL_PLUGIN_PATH", at("fatal"), 1);
	is_int(coll_backend_available("good", NULL, 0), 0, "asking for one opens no other");
	unsetenv("STUB_FATAL");
	is_int(coll_backend_available("fatal", NULL, 0), COLL_ERR_CONFIG,
	       "asking for it reads its section");
	unsetenv("COLL_FATAL_LANES");
	is_int(coll_backend_available("fatal", NULL, 0), 0, "it is available then");
	unsetenv("COLL_PLUGIN_PATH");
	info = make(at("fatal"), NULL);
	is_int(backend(info, "fatal").usable, 1, "not ruled out: it is opened");
	coll_info_destroy(info);
}

static void test_misuse(void)
{
	coll_info_t info = make(dir, NULL);
	coll_backend_info_t b = {.size = offsetof(coll_backend_info_t, path), .path = "untouched"};
	const char *sentence;

	is_int(coll_info_backend(info, 0, &b), 0, "a shorter struct");
	is_str(b.path, "untouched", "is filled as far as it goes");
	b.size = 0;
	is_int(coll_info_backend(info, 0, &b), COLL_ERR_INVALID_ARGUMENT, "size not set");
	b.size = sizeof(b);
	is_int(coll_info_backend(info, 99, &b), COLL_ERR_INVALID_ARGUMENT, "no such backend");
	is_int(coll_info_backend(info, 0, NULL), COLL_ERR_INVALID_ARGUMENT, "NULL");
	is_str(coll_info_note(info, 99), "", "no such note");
	coll_info_destroy(info);
	coll_info_destroy(info);
	coll_info_destroy(NULL);
	is_int(coll_info_backend_count(info), 0, "destroyed");
	is_int(coll_info_verdict(info, &sentence), COLL_ERR_INVALID_ARGUMENT, "destroyed");
	is_int(coll_info_create(NULL, NULL), COLL_ERR_INVALID_ARGUMENT, "NULL");
}

static void test_available(void)
{
	char reason[256];

	setenv("COLL_PLUGIN_PATH", dir, 1);
	unsetenv("STUB_UNABLE_PROBED");
	is_int(coll_backend_available("good", reason, sizeof(reason)), 0, "available");
	is_str(reason, "", "no reason");
	is_int(getenv("STUB_UNABLE_PROBED") != NULL, 0, "no other backend was probed");
	is_int(coll_backend_available("unable", reason, sizeof(reason)), COLL_ERR_DEVICE, "not");
	is_str(reason, "libfabulous.so.3: cannot open shared object file", "reason");
	is_int(coll_backend_available("gud", reason, sizeof(reason)), COLL_ERR_NOT_FOUND,
	       "no such");
	has_str(reason, "found: broken, good, newer, unable", "those that exist");
	is_int(coll_backend_available("broken", reason, 12), COLL_ERR_PLUGIN, "refused");
	is_str(reason, "cannot load", "a reason that is cut off");
	is_int(coll_backend_available("good", NULL, 0), 0, "no room for a reason");
	is_int(coll_backend_available(NULL, reason, sizeof(reason)), COLL_ERR_INVALID_ARGUMENT,
	       "NULL");
	unsetenv("COLL_PLUGIN_PATH");
}

static void test_rules(void)
{
	coll_rule_info_t rule = {.size = sizeof(rule)}, old;
	coll_info_t info;
	const char *why = NULL;
	int32_t reach = -1;
	int n;

	setenv("COLL_REDUCE_ALGORITHM", "binomial bytes 4K-64K block 1K- ranks 3", 1);
	info = make(dir, NULL);
	unsetenv("COLL_REDUCE_ALGORITHM");
	n = coll_info_rule_count(info);
	ok(n > 14, "%d rules", n);
	for (int i = 0; i < n; i++) {
		is_int(coll_info_rule(info, i, &rule), 0, "rule %d", i);
		if (rule.kind == COLL_KIND_REDUCE && rule.number == 1)
			break;
	}
	is_str(rule.name, "binomial", "its algorithm");
	is_str(rule.source, "COLL_REDUCE_ALGORITHM", "who set it");
	ok(rule.bytes_min == 4096 && rule.bytes_max == 65536, "its bytes");
	ok(rule.block_min == 1024 && rule.block_max == UINT64_MAX, "its bytes a rank");
	ok(rule.ranks_min == 3 && rule.ranks_max == 3, "its ranks");
	ok(rule.nodes_min == 1 && rule.nodes_max == INT32_MAX, "its nodes");
	ok(rule.local_min == 1 && rule.local_max == INT32_MAX, "its ranks a node");
	is_int(rule.memory, COLL_RULE_HOST_MEMORY | COLL_RULE_CUDA_MEMORY, "any memory");
	is_int(rule.cpus, COLL_RULE_OWN_CPUS | COLL_RULE_SHARED_CPUS | COLL_RULE_FEW_CPUS,
	       "any processors");
	is_int(rule.power, COLL_RULE_POWER_TWO | COLL_RULE_POWER_OTHER, "any number");
	is_int(coll_info_rule_reach(info, 0, 2, 0, &reach, &why), 0, "its reach");
	ok(reach >= COLL_REACH_NONE && reach <= COLL_REACH_ORDERED && why, "is said");
	is_int(coll_info_rule_reach(info, 0, 2, 0, NULL, NULL), COLL_ERR_INVALID_ARGUMENT, "NULL");
	is_int(coll_info_rule_reach(info, n, 2, 0, &reach, &why), COLL_ERR_INVALID_ARGUMENT,
	       "no such rule");
	is_int(coll_info_rule(info, n, &rule), COLL_ERR_INVALID_ARGUMENT, "beyond");
	is_int(coll_info_rule(info, -1, &rule), COLL_ERR_INVALID_ARGUMENT, "before");
	is_int(coll_info_rule(info, 0, NULL), COLL_ERR_INVALID_ARGUMENT, "NULL");
	old = (coll_rule_info_t){.size = offsetof(coll_rule_info_t, kind), .kind = -7};
	is_int(coll_info_rule(info, 0, &old), 0, "an older struct");
	is_int(old.kind, -7, "nothing beyond it written");
	old.size = 0;
	is_int(coll_info_rule(info, 0, &old), COLL_ERR_INVALID_ARGUMENT, "no size");
	coll_info_destroy(info);
	is_int(coll_info_rule_count(info), 0, "after destroy: none");
	is_int(coll_info_rule(info, 0, &rule), COLL_ERR_INVALID_ARGUMENT, "nor any");
}

int main(void)
{
	plugin_dir_begin();
	place("coll_good.so", "coll_good.so");
	place("coll_newer.so", "coll_newer.so");
	place("coll_unable.so", "coll_unable.so");
	put("coll_broken.so", "text", 4);
	test_picture();
	test_named();
	test_in_process();
	test_options();
	test_rules();
	test_unopened();
	test_misuse();
	test_available();
	plugin_dir_end();
	return done_testing();
}
