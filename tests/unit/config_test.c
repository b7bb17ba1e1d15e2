/* SPDX-License-Identifier: BSD-3-Clause */
/* config_test.c - the sources of options, their precedence, and the errors; links the core. */
#include "config_dir.h"
#include "base/log.h"

#include <stddef.h>
#include <sys/auxv.h>
#include <sys/wait.h>

static void test_defaults(void)
{
	struct config *config = load(NULL, 0, "nothing said");

	is_str(config_string(config, "timeout"), "300s", "default text");
	is_int(config_int(config, "timeout"), 300000000, "default in microseconds");
	is_int(config_int(config, "poll"), 20, "20us");
	is_int(config_int(config, "segment"), 1 << 20, "1M");
	is_int(config_int(config, "companion"), 0, "a choice is its index");
	ok(!config_string(config, "backend"), "no default, not set: NULL");
	ok(!config_is_set(config, "timeout") && !config_is_set(config, "nosuch"), "not set");
	is_str(config_source(config, "timeout"), "default", "source");
	ok(has_note(config, "sys/coll.conf: not there"), "absent file noted");
	config_free(config);
	config_free(NULL);
}

static void test_precedence(void)
{
	static const char *const options[] = {"net.lanes=9", "poll = 7us", NULL};
	coll_config_t app;
	struct config *config;

	put("sys/coll.conf", "timeout = 1s\ninit_timeout = 1s\ndestroy_timeout = 1s\nyield=1us\n"
			     "[net]\npriority = 1\n");
	put("sys/coll.conf.d/10-a.conf", "destroy_timeout=2s\n[net]\npriority = 2\nlanes=3\n");
	put("sys/coll.conf.d/20-b.conf", "[net]\npriority = -3\nlanes=4\n");
	put("sys/coll.conf.d/30-c.config.bak", "nonsense");
	put("sys/coll.conf.d/.hidden.conf", "nonsense");
	put("home/.config/coll/coll.conf", "init_timeout = 3s\ntimeout = 3s\n");
	setenv("COLL_TIMEOUT", "4s", 1);
	setenv("COLL_NET_LANES", "5", 1);
	setenv("COLL_POLL", "", 1);
	config = load(NULL, 0, "files and environment");
	is_int(declare_net(config), 0, "declared");
	is_int(config_int(config, "timeout"), 4000000, "environment over user's file");
	is_str(config_source(config, "timeout"), "COLL_TIMEOUT", "its source");
	is_int(config_int(config, "init_timeout"), 3000000, "user's file over system's");
	is_str(config_source(config, "init_timeout"), at("home/.config/coll/coll.conf:1"),
	       "source");
	is_int(config_int(config, "destroy_timeout"), 2000000, "coll.conf.d over coll.conf");
	is_int(config_int(config, "yield"), 1, "coll.conf over default");
	ok(!config_is_set(config, "poll"), "an empty variable is none");
	is_int(config_int(config, "net.lanes"), 5, "backend's variable");
	is_str(config_source(config, "net.priority"), at("sys/coll.conf.d/20-b.conf:2"),
	       "priority's");
	config_free(config);

	coll_config_init(&app, sizeof(app));
	app.timeout_ms = 6000;
	app.options = options;
	app.backend = "net";
	app.config_file = at("other.conf");
	put("other.conf", "init_timeout = 8s\n");
	config = load(&app, 0, "with application");
	is_int(declare_net(config), 0, "declared");
	is_str(config_string(config, "timeout"), "6000ms", "application over environment");
	is_str(config_source(config, "timeout"), "application", "its source");
	is_int(config_int(config, "poll"), 7, "an option of the application");
	is_int(config_int(config, "net.lanes"), 9, "and of a backend");
	is_str(config_string(config, "backend"), "net", "string field");
	is_int(config_int(config, "init_timeout"), 8000000, "config_file instead of the user's");
	config_free(config);
	unsetenv("COLL_TIMEOUT");
	unsetenv("COLL_NET_LANES");
	unsetenv("COLL_POLL");
	setenv("XDG_CONFIG_HOME", at("xdg"), 1);
	make_dir("xdg");
	make_dir("xdg/coll");
	put("xdg/coll/coll.conf", "poll = 9us");
	config = load(NULL, 0, "XDG_CONFIG_HOME, no newline at the end");
	is_int(config_int(config, "poll"), 9, "XDG_CONFIG_HOME over HOME");
	config_free(config);
	unsetenv("XDG_CONFIG_HOME");
	unlink(at("home/.config/coll/coll.conf"));
	unlink(at("sys/coll.conf"));
	unlink(at("sys/coll.conf.d/10-a.conf"));
	unlink(at("sys/coll.conf.d/20-b.conf"));
}

static void test_priority(void)
{
	int32_t priority = 77;
	struct config *config;

	config = load(NULL, 0, "no priority");
	ok(!config_priority(config, "net", &priority) && priority == 77, "not set");
	is_str(config_source(config, "net.priority"), "default", "its source");
	config_free(config);
	setenv("COLL_NET_PRIORITY", "-5", 1);
	config = load(NULL, 0, "priority in the environment");
	ok(config_priority(config, "net", &priority) && priority == -5, "before it is declared");
	is_str(config_source(config, "net.priority"), "COLL_NET_PRIORITY", "its source");
	config_free(config);
	setenv("COLL_NET_PRIORITY", "3000000000", 1);
	config = load(NULL, 0, "wrong priority: not known before its section is declared");
	is_int(config_declare(config, "net", NULL, 0), COLL_ERR_CONFIG, "then it is");
	has_str(error_text(), "COLL_NET_PRIORITY: option 'net.priority' has the value '3000000000'",
		"names it");
	ok(!config_priority(config, "net", &priority), "and is not in force");
	config_free(config);
	unsetenv("COLL_NET_PRIORITY");
}

static void test_sections(void)
{
	struct config *config;

	put("user.conf", "[nte]\nlanes = many\nfoo = bar\n[net]\nlans = 3\nlanes = 65\n");
	setenv("COLL_CONFIG", at("user.conf"), 1);
	config = load(NULL, 0, "sections nobody has declared are not checked");
	ok(has_note(config, "user.conf:2: there is no backend 'nte' here"), "but noted");
	is_int(declare_net(config), COLL_ERR_CONFIG, "declared: checked");
	has_str(error_text(),
		"user.conf:6: option 'net.lanes' has the value '65': expected an "
		"integer from 1 to 64",
		"value");
	is_int(config_int(config, "net.lanes"), 2, "the default stays");
	ok(has_note(config, "user.conf:5: unknown option 'net.lans'; did you mean 'net.lanes'?"),
	   "unknown key noted");
	ok(has_note(config, "'nte' here; its options are not checked; did you mean 'net'?"),
	   "section guessed");
	is_int(declare_net(config), COLL_ERR_CONFIG,
	       "declared again: unknown key is again a fault");
	is_int(config_count(config), config_core_count + 3, "no option twice");
	config_free(config);
	put("user.conf", "[net]\ntimeout = 3s\n");
	config = load(NULL, 0, "a core option in a section");
	is_int(declare_net(config), COLL_ERR_CONFIG, "refused");
	has_str(error_text(), "'timeout' has no section: it goes above the first section",
		"with help");
	config_free(config);
	unsetenv("COLL_CONFIG");
}

/* Loads, declares `net` as the only backend, and expects this code of config_check_sections. */
static void check_sections(const coll_config_t *app, const char *file, int code, const char *piece)
{
	struct config *config;

	put("user.conf", file);
	setenv("COLL_CONFIG", at("user.conf"), 1);
	config = load(app, 0, file);
	is_int(declare_net(config), 0, "declared");
	is_int(config_check_sections(config), code, "the sections are checked: '%s'", piece);
	if (code)
		has_str(error_text(), piece, "the text");
	ok(!piece[0] || has_note(config, piece), "the diagnostic");
	config_free(config);
	unsetenv("COLL_CONFIG");
}

/* A backend's option `interface`, with the core's option set, or its own, or both. */
static void check_interface(const char *text, const char *want, const char *source)
{
	struct config *config;

	put("user.conf", text);
	setenv("COLL_CONFIG", at("user.conf"), 1);
	config = load(NULL, 0, "a file");
	is_int(declare_net(config), 0, "declared");
	is_str(config_string(config, "net.interface"), want, "the value");
	is_str(config_source(config, "net.interface"), source, "its source");
	config_free(config);
	unsetenv("COLL_CONFIG");
}

static void test_interface(void)
{
	check_interface("", "", "default");
	check_interface("interface = lo\n", "lo", at("user.conf:1"));
	check_interface("[net]\ninterface = eth0\n", "eth0", at("user.conf:2"));
	check_interface("interface = lo\n[net]\ninterface = eth0\n", "eth0", at("user.conf:3"));
}

static void test_wrong_sections(void)
{
	const char *options[2] = {"nte.lanes=3", NULL};
	coll_config_t app;

	check_sections(NULL, "[net]\nlanes = 3\n", 0, "");
	check_sections(NULL, "\n[nte]\nlanes = 3\n", COLL_ERR_CONFIG,
		       "user.conf:3: unknown option 'nte.lanes': there is no backend 'nte' here; "
		       "did you mean 'net'?");
	check_sections(NULL, "[NET]\nlanes = 3\n", COLL_ERR_CONFIG, "did you mean 'net'?");
	check_sections(NULL, "[tpc]\ninterface = lo\n", COLL_ERR_CONFIG, "did you mean 'tcp'?");
	check_sections(NULL, "[ucc]\nmode = a\n", COLL_SUCCESS, "there is no backend 'ucc' here");
	check_sections(NULL, "[coll]\ntimeout = 3s\n", COLL_ERR_CONFIG,
		       "user.conf:2: unknown option 'coll.timeout': there is no backend 'coll'; "
		       "options of the library go above the first section");
	check_sections(NULL, "[tcp]\nunix = no\n", 0, "there is no backend 'tcp' here");
	check_sections(NULL, "[elsewhere]\nx = y\n", 0,
		       "user.conf:2: there is no backend 'elsewhere' here");
	coll_config_init(&app, sizeof(app));
	app.options = options;
	check_sections(&app, "", COLL_ERR_CONFIG,
		       "application option 'nte.lanes=3': unknown option 'nte.lanes': there is no "
		       "backend 'nte' here; did you mean 'net'?");
	options[0] = "coll.timeout=3s";
	check_sections(&app, "", COLL_ERR_CONFIG,
		       "there is no backend 'coll'; options of the library have no backend's name "
		       "before them");
}

/* The section of a plugin that is not opened is accepted unread, until the plugin is opened. */
static void test_accepted(void)
{
	struct config *config;
	int32_t priority = 77;

	put("user.conf", "[net]\nlanes = many\nnosuch = 1\npriority = high\n");
	setenv("COLL_CONFIG", at("user.conf"), 1);
	setenv("COLL_NET_NOSUCH", "1", 1);
	setenv("COLL_NETTLE_NOSUCH", "1", 1);
	config = load(NULL, 0, "a section with faults");
	config_accept(config, "net");
	is_int(config_check_sections(config), 0, "the section of a plugin that is not opened");
	ok(!has_note(config, "COLL_NET_NOSUCH") && !has_note(config, "user.conf:3"), "is unread");
	ok(has_note(config, "COLL_NETTLE_NOSUCH is set"), "another variable is noted");
	is_str(config_string(config, "net.lanes"), NULL, "nothing of it is in force");
	is_int(declare_net(config), COLL_ERR_CONFIG, "the plugin is opened after all");
	has_str(error_text(), "user.conf:4: option 'net.priority' has the value 'high'", "first");
	ok(has_note(config, "user.conf:2: option 'net.lanes' has the value 'many'"), "second");
	ok(has_note(config, "user.conf:3: unknown option 'net.nosuch'"), "third");
	ok(has_note(config, "COLL_NET_NOSUCH is set, but"), "and its variable");
	config_free(config);

	setenv("COLL_NET_PRIORITY", "7", 1);
	config = load(NULL, 0, "a priority");
	config_accept(config, "net");
	ok(config_priority(config, "net", &priority) && priority == 7, "is read late, too");
	config_accept(config, "net");
	ok(config_priority(config, "net", &priority) && priority == 7, "and stays");
	config_free(config);
	unsetenv("COLL_NET_PRIORITY");
	unsetenv("COLL_NET_NOSUCH");
	unsetenv("COLL_NETTLE_NOSUCH");
	unsetenv("COLL_CONFIG");
}

/* The sections that ask for protection: "net=yes (COLL_NET_SECURITY) ...". */
static void asks(const char *file, const char *const *options, const char *want)
{
	struct config_security asked;
	struct config *config;
	coll_config_t app;
	char all[400] = "";

	put("user.conf", file);
	setenv("COLL_CONFIG", at("user.conf"), 1);
	coll_config_init(&app, sizeof(app));
	app.options = options;
	config = load(&app, 0, want);
	for (int i = 0; config_security(config, i, &asked); i++) {
		const char *slash = strrchr(asked.source, '/');

		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s=%s (%s)", i ? " " : "",
			 asked.section, asked.value, slash ? slash + 1 : asked.source);
	}
	is_str(all, want, "asks for protection: %s", want);
	config_free(config);
	unsetenv("COLL_CONFIG");
}

static void test_security(void)
{
	static const char *const options[] = {"net.security=full", "other.security=off", NULL};
	static const char *const offs[] = {"none", "no", "NO", "off", "false", "0"};
	char file[80];

	asks("", NULL, "");
	asks("[net]\nsecurity = some\n", NULL, "net=some (user.conf:2)");
	asks("[net]\nSecurity = some\n[other]\nsecurity = x\n", NULL,
	     "net=some (user.conf:2) other=x (user.conf:4)");
	asks("[net]\nsecurity_level = some\n", NULL, "");
	for (size_t i = 0; i < sizeof(offs) / sizeof(offs[0]); i++) {
		snprintf(file, sizeof(file), "[net]\nsecurity = some\nsecurity = %s\n", offs[i]);
		asks(file, NULL, "");
	}
	setenv("COLL_NET_SECURITY", "much", 1);
	setenv("COLL_TWO_WORDS_SECURITY", "yes", 1);
	asks("[net]\nsecurity = some\n", NULL,
	     "net=much (COLL_NET_SECURITY) two_words=yes (COLL_TWO_WORDS_SECURITY)");
	unsetenv("COLL_TWO_WORDS_SECURITY");
	asks("[other]\nsecurity = x\n", options, "net=full (application)");
	setenv("COLL_NET_SECURITY", "none", 1);
	asks("[net]\nsecurity = some\n", NULL, "");
	unsetenv("COLL_NET_SECURITY");
}

static void test_application(void)
{
	static const char *const bad[][3] = {
		{"timeout=x", "application option 'timeout=x': option 'timeout' has the value 'x'"},
		{"tmeout=1",
		 "application option 'tmeout=1': unknown option 'tmeout'; did you mean"},
		{"timeout", "application option 'timeout': expected 'key=value'"},
		{"=1", "application option '=1': expected 'key=value'"},
		{"", "application option '': expected 'key=value'"},
	};
	const char *options[2] = {NULL, NULL};
	coll_config_t app;
	struct config *config;
	size_t i;

	coll_config_init(&app, sizeof(app));
	app.options = options;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		options[0] = bad[i][0];
		config = load(&app, COLL_ERR_CONFIG, bad[i][0]);
		has_str(error_text(), bad[i][1], "says so");
		config_free(config);
	}
	options[0] = "net.lanes=no";
	config = load(&app, 0, "option of a backend that is not declared");
	is_int(declare_net(config), COLL_ERR_CONFIG, "checked when it is");
	has_str(error_text(), "application option 'net.lanes=no'", "named");
	config_free(config);
	options[0] = NULL;
	app.timeout_ms = -7;
	config = load(&app, COLL_ERR_CONFIG, "negative timeout");
	has_str(error_text(), "coll_config_t.timeout_ms is -7: expected 1 to 31622400000", "named");
	config_free(config);
	app.timeout_ms = INT64_MAX;
	config = load(&app, COLL_ERR_CONFIG, "timeout without end");
	has_str(error_text(), "coll_config_t.timeout_ms is 9223372036854775807: expected", "named");
	config_free(config);
}

/* --------------------------------------------------------------- environment -- */

static int lines_on_stderr(const struct config *config)
{
	char text[4096];
	int fd[2], saved = dup(2), lines = 0;
	ssize_t n;

	if (pipe(fd) || dup2(fd[1], 2) < 0)
		bail_out("cannot redirect stderr");
	close(fd[1]);
	config_warn_unused(config);
	dup2(saved, 2);
	close(saved);
	while ((n = read(fd[0], text, sizeof(text))) > 0)
		while (n--)
			lines += text[n] == '\n';
	close(fd[0]);
	return lines;
}

static void test_environment(void)
{
	struct config *config;

	put("user.conf", "[elsewhere]\nx = y\nz = y\n[tcp]\nunix = no\n");
	setenv("COLL_CONFIG", at("user.conf"), 1);
	setenv("COLL_TMEOUT", "1", 1);
	setenv("COLL_NET_LANS", "1", 1);
	setenv("COLL_NET_BUFFER", " 1K ", 1);
	setenv("COLL_RANK", "1", 1);
	setenv("COLL_RUN_ANYTHING", "1", 1);
	setenv("COLL_LOG", "info", 1);
	config = load(NULL, 0, "unknown variables are no error");
	is_int(log_level(), COLL_LOG_INFO, "COLL_LOG sets the level");
	ok(has_note(config, "COLL_TMEOUT is set, but libcoll"), "noted");
	is_int(declare_net(config), 0, "nor in a backend");
	ok(has_note(config,
		    "COLL_TMEOUT is set, but libcoll and the backends here have no such option; "
		    "did you mean 'COLL_TIMEOUT'?"),
	   "with a guess");
	ok(has_note(config, "did you mean 'COLL_NET_LANES'?"), "with a backend's, once declared");
	is_int(config_int(config, "net.buffer"), 1024, "blanks around a value");
	is_int(lines_on_stderr(config), 3, "warned of both, and once of the unknown section");
	is_int(lines_on_stderr(config), 0, "once");
	ok(!config_diagnostic(config, -1) &&
		   !config_diagnostic(config, config_diagnostic_count(config)),
	   "no note beyond");
	config_free(config);
	setenv("COLL_LOG", "loud\nand \x1b[1mbold", 1);
	config = load(NULL, COLL_ERR_CONFIG, "wrong value");
	has_str(error_text(), "COLL_LOG: option 'log' has the value 'loud?and ?[1mbold'", "named");
	is_int(log_level(), COLL_LOG_WARN, "the default is in force");
	config_free(config);
	unsetenv("COLL_CONFIG");
	unsetenv("COLL_TMEOUT");
	unsetenv("COLL_NET_LANS");
	unsetenv("COLL_NET_BUFFER");
	unsetenv("COLL_RANK");
	unsetenv("COLL_RUN_ANYTHING");
	unsetenv("COLL_LOG");
}

static void test_describe(void)
{
	struct config *config;
	coll_option_info_t info = {.size = sizeof(info)};

	setenv("COLL_TIMEOUT", "7s", 1);
	config = load(NULL, 0, "to describe");
	is_int(declare_net(config), 0, "declared");
	is_int(config_describe(config, 3, &info), 0, "the fourth");
	is_str(info.name, "timeout", "name");
	is_str(info.value, "7s", "value");
	is_str(info.fallback, "300s", "default");
	is_str(info.unit, "seconds", "unit");
	is_str(info.source, "COLL_TIMEOUT", "source");
	is_int(config_describe(config, config_count(config) - 1, &info), 0, "the last");
	is_str(info.name, "net.buffer", "its name");
	is_str(info.value, "", "no value");
	is_int(config_describe(config, config_count(config), &info), COLL_ERR_INVALID_ARGUMENT,
	       "beyond");
	is_int(config_describe(config, -1, &info), COLL_ERR_INVALID_ARGUMENT, "before");
	info.size = 0;
	is_int(config_describe(config, 0, &info), COLL_ERR_INVALID_ARGUMENT, "no size");
	info.size = offsetof(coll_option_info_t, value);
	info.value = "untouched";
	is_int(config_describe(config, 0, &info), 0, "an older struct");
	is_str(info.value, "untouched", "nothing beyond it written");
	config_free(config);
	unsetenv("COLL_TIMEOUT");
}

/* ------------------------------------------------------------------- set-uid -- */

/*
 * Runs in a copy of this program as another user: returns 0 if the library ignored the environment.
 */
static int secure_child(void)
{
	struct config *config;
	int code;

	if (!getauxval(AT_SECURE))
		return 77;
	code = config_load(NULL, rules_check_option, &config);
	return code != 0 || config_is_set(config, "timeout") || config_is_set(config, "poll") ||
	       config_is_set(config, "yield");
}

static void test_secure(void)
{
	char command[512];
	int status;

	if (geteuid() != 0) {
		skip(1, "needs root, to make a set-uid program");
		return;
	}
	put("sys/coll.conf", "timeout = 1s\n");
	put("home/.config/coll/coll.conf", "poll = 1us\n");
	setenv("COLL_YIELD", "1us", 1);
	setenv("COLL_CONFIG", "/nonexistent", 1);
	snprintf(command, sizeof(command),
		 "cp /proc/%d/exe %s/suid && chown 65534 %s/suid && chmod 4755 %s/suid && "
		 "exec %s/suid secure",
		 (int)getpid(), dir, dir, dir, dir);
	chmod(dir, 0755);
	status = system(command);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip(1, "the file system of %s does not do set-uid", dir);
	else
		is_int(status, 0, "a set-uid program ignores environment and user's files");
	unsetenv("COLL_YIELD");
	unsetenv("COLL_CONFIG");
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "secure") == 0)
		_exit(secure_child());
	config_dir_begin();
	test_defaults();
	test_precedence();
	test_priority();
	test_sections();
	test_interface();
	test_wrong_sections();
	test_accepted();
	test_security();
	test_application();
	test_environment();
	test_describe();
	test_secure();
	config_dir_end();
	return done_testing();
}
