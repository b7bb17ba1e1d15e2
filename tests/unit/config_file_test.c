/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * config_file_test.c - configuration files: the accepted values, and the errors with their places.
 */
#include "config_dir.h"

#include <coll/observer.h>
#include <dlfcn.h>
#include <fcntl.h>

#include "../lib/open_files.h"

/* Loads a user's file with this content and expects an error whose text has `piece`. */
static void refuse(const char *text, const char *piece)
{
	struct config *config;

	put("user.conf", text);
	setenv("COLL_CONFIG", at("user.conf"), 1);
	config = load(NULL, COLL_ERR_CONFIG, "refused");
	has_str(error_text(), piece, "says '%s'", piece);
	config_free(config);
	unsetenv("COLL_CONFIG");
}

static void test_lines(void)
{
	static const char good[] = "\xef\xbb\xbf# comment\r\n"
				   "   timeout = 1min ; why\r\n"
				   "\tpoll: 3us\r\n"
				   "net.lanes = 7\r\n"
				   "\r\n"
				   "  [ net ] ; here\r\n"
				   "interface = a b = c\r\n"
				   "interface = eth0\r\n"
				   "buffer =\r\n";
	struct config *config;

	put("user.conf", good);
	setenv("COLL_CONFIG", at("user.conf"), 1);
	config = load(NULL, 0, "BOM, CRLF, blanks, comments");
	is_int(declare_net(config), 0, "declared");
	is_int(config_int(config, "timeout"), 60000000, "comment after the value");
	is_str(config_string(config, "timeout"), "1min", "as written");
	is_int(config_int(config, "poll"), 3, "colon; indented is no continuation");
	is_str(config_source(config, "poll"), at("user.conf:3"), "its line");
	is_int(config_int(config, "net.lanes"), 7, "section written as a prefix");
	is_str(config_string(config, "net.interface"), "eth0", "the later one wins");
	ok(has_note(config, "user.conf:8: option 'interface' replaces the value of"), "noted");
	ok(has_note(config, "user.conf:9: option 'buffer' has no value"), "empty value noted");
	ok(!config_is_set(config, "net.buffer"), "and left out");
	config_free(config);
	put("user.conf", "");
	config = load(NULL, 0, "empty file");
	config_free(config);
	setenv("COLL_CONFIG", "/dev/null", 1);
	config = load(NULL, 0, "/dev/null");
	config_free(config);
	unsetenv("COLL_CONFIG");
}

/* A value in several lines. */
static void test_further_lines(void)
{
	static const char good[] = "interface = a, \\\n"
				   "\tb,\\  \r\n"
				   "# not, \\\n"
				   "c;d ; a comment\n"
				   "timeout = 5 \\\n"
				   "\n"
				   "poll = 3us\n"
				   "# no value \\\n"
				   "yield = 4us\n"
				   "plugin_path = /x \\\n"
				   "  ; ends it\n"
				   "stall_after = 7s\n"
				   "init_timeout = 8s \\";
	struct config *config;

	put("user.conf", good);
	setenv("COLL_CONFIG", at("user.conf"), 1);
	config = load(NULL, 0, "values in several lines");
	is_str(config_string(config, "interface"), "a, b,c;d",
	       "put together: a blank before the '\\' stays, others, line ends and comments go");
	is_str(config_source(config, "interface"), at("user.conf:1"), "its first line");
	is_int(config_int(config, "timeout"), 5000000, "an empty line ends it");
	is_int(config_int(config, "poll"), 3, "the next option");
	is_str(config_source(config, "poll"), at("user.conf:7"), "has the right line");
	is_int(config_int(config, "yield"), 4, "a comment does not go on");
	is_str(config_string(config, "plugin_path"), "/x",
	       "a comment that does not go on ends a value");
	is_int(config_int(config, "stall_after"), 7000000, "so the next option is one");
	is_int(config_int(config, "init_timeout"), 8000000, "the end of the file, too");
	config_free(config);
	put("user.conf", "plugin_path = /x \\\ntimeout = 7\n");
	config = load(NULL, 0, "one '\\' too many");
	ok(has_note(config, "user.conf:2: this line belongs to the value of "), "noted");
	config_free(config);
	unsetenv("COLL_CONFIG");
	refuse("timeout = \\\n5\n", "user.conf:1: expected the beginning of a value before '\\'");
	refuse("poll = 3us \\\n\001\n", "user.conf:2: control character 0x01");
	refuse("allreduce_algorithm = ring, \\\nrinng\n",
	       "user.conf:1: option 'allreduce_algorithm'");
	refuse("wrong line \\\nand more\nwrong\n", "user.conf:1: expected 'key = value'");
	refuse("plugin_path = /x, \\\n[tcp]\n", "user.conf:2: a heading within a value");
	refuse("\\\n", "user.conf:1: expected 'key = value'");
}

/* Appends n times the character, then the text. */
static void grow(char *text, char c, size_t n, const char *then)
{
	const size_t len = strlen(text);

	memset(text + len, c, n);
	strcpy(text + len + n, then);
}

static void test_long_lines(void)
{
	static char text[8192];
	struct config *config;

	setenv("COLL_CONFIG", at("user.conf"), 1);
	strcpy(text, "plugin_path = /x:\\\n");
	grow(text, 'y', 190, "\\\n");
	grow(text, 'z', 198, "\r\n");
	put("user.conf", text);
	config = load(NULL, 0, "a value of more than 198 characters");
	is_int((long)strlen(config_string(config, "plugin_path")), 3 + 190 + 198, "whole");
	config_free(config);
	strcpy(text, "interface = a, \\\n#");
	grow(text, 'c', 250, " \\\nb, \\\n#");
	grow(text, 'c', 197, "\\ and no more\npoll = 3us\n");
	put("user.conf", text);
	config = load(NULL, 0, "long comments within a value");
	is_str(config_string(config, "interface"), "a, b,",
	       "a long one goes on by its last character");
	is_int(config_int(config, "poll"), 3, "and only by that");
	config_free(config);
	unsetenv("COLL_CONFIG");
	strcpy(text, "poll = 3us, \\\n");
	grow(text, 'x', 250, "\\\ny\n");
	refuse(text,
	       "user.conf:2: the line is longer than 198 characters; end it with '\\' and go on");
	strcpy(text, "plugin_path = x");
	for (int i = 0; i < 42; i++)
		grow(text, 'x', i ? 100 : 1, "\\\n");
	refuse(text, ": the value is longer than 4096 characters");
}

static void test_refused_lines(void)
{
	struct config *config;
	char *big;

	refuse("# x\ntmeout = 5\n",
	       "user.conf:2: unknown option 'tmeout'; did you mean 'timeout'?");
	refuse("zzzzzzz = 5\n", "user.conf:1: unknown option 'zzzzzzz'");
	refuse("Timeout = 5\n", "did you mean 'timeout'?");
	refuse("\n\ntimeout = soon\n", "user.conf:3: option 'timeout' has the value 'soon': "
				       "expected a duration such as 20us");
	refuse("segment = 1K\n", "from 4K to 1G");
	refuse("timeout = 0\n", "from 1ms to 527040min");
	refuse("log = loud\n", "expected one of error, warn, info, debug, trace");
	refuse("reproducible = maybe\n", "expected yes or no");
	refuse("timeout\n", "user.conf:1: expected 'key = value'");
	refuse("\n= 5\n", "user.conf:2: expected 'key = value'");
	refuse("[net\n", "user.conf:1: expected ']'");
	refuse("[]\n", "user.conf:1: the section's name is empty");
	refuse("[  ]\n", "user.conf:1: the section's name is empty");
	refuse("[net] x\n", "user.conf:1: text after ']'");
	refuse("[abcdefghijklmnopqrstuvwxyz0123456789]\n", "longer than 31 characters");
	refuse("timeout = 5\rpoll = 3\r", "user.conf:1: control character 0x0d");
	refuse("timeout = 5\n\xef\xbb\xbfpoll = 3us\n",
	       "user.conf:2: a byte order mark amid the file");
	put_bytes("nul.conf", "timeout = 5\npoll\0 = 3us\n", 23);
	setenv("COLL_CONFIG", at("nul.conf"), 1);
	config = load(NULL, COLL_ERR_CONFIG, "NUL byte");
	has_str(error_text(), "nul.conf:2: control character 0x00", "named");
	config_free(config);
	big = malloc((1 << 20) + 2);
	if (!big)
		bail_out("memory");
	memset(big, 'x', (1 << 20) + 1);
	big[300] = '\0';
	refuse(big,
	       "user.conf:1: the line is longer than 198 characters; end it with '\\' and go on in "
	       "the next line, or set the option by its environment variable");
	big[300] = 'x';
	put_bytes("big.conf", big, (1 << 20) + 1);
	setenv("COLL_CONFIG", at("big.conf"), 1);
	config = load(NULL, COLL_ERR_CONFIG, "too large");
	has_str(error_text(), "it is larger than 1 MiB", "said");
	config_free(config);
	memset(big, '\n', 1 << 20);
	put_bytes("big.conf", big, 1 << 20);
	config = load(NULL, 0, "1 MiB of empty lines");
	config_free(config);
	memset(big, ' ', 1 << 20);
	big[0] = '[';
	big[(1 << 20) - 1] = ']';
	put_bytes("big.conf", big, 1 << 20);
	config = load(NULL, COLL_ERR_CONFIG, "1 MiB in one line, to the last byte");
	config_free(config);
	free(big);
	unsetenv("COLL_CONFIG");
}

/* A file with too many options tells of its first wrong option, and of their number. */
static void test_many_options(void)
{
	static const char line[] = "timeout = 3s\n";
	char *text = malloc(1100 * sizeof(line));
	struct config *config;
	size_t used = 0;

	if (!text)
		bail_out("memory");
	for (int i = 0; i < 1025; i++)
		used += (size_t)sprintf(text + used, "%s", i == 6 ? "tmeout = 3s\n" : line);
	refuse(text, "user.conf:7: unknown option 'tmeout'; did you mean 'timeout'?");
	setenv("COLL_CONFIG", at("user.conf"), 1);
	config = load(NULL, COLL_ERR_CONFIG, "1025 options, one of them wrong");
	ok(has_note(config, "user.conf:1025: more than 1024 options in one file"), "noted");
	config_free(config);
	memcpy(strstr(text, "tmeout = 3s"), "poll = 30us", strlen("poll = 30us"));
	refuse(text, "user.conf:1025: more than 1024 options in one file");
	free(text);
}

/* The error of a wrong line among good lines has the number of that line. */
static void test_line_numbers(void)
{
	char text[2048], want[64];
	int bad, line, right = 0;
	struct config *config;

	setenv("COLL_CONFIG", at("user.conf"), 1);
	for (bad = 1; bad <= 60; bad++) {
		text[0] = '\0';
		for (line = 1; line <= 60; line++)
			strcat(text, line == bad     ? "wrong line\n"
				     : line % 4 == 0 ? "# x\n"
				     : line % 4 == 1 ? "poll = 1us\n"
				     : line % 4 == 2 ? "\n"
						     : "  yield = 2us\r\n");
		put("user.conf", text);
		snprintf(want, sizeof(want), "user.conf:%d: expected", bad);
		right += config_load(NULL, rules_check_option, &config) == COLL_ERR_CONFIG &&
			 strstr(error_text(), want) != NULL;
		config_free(config);
	}
	is_int(right, 60, "line numbers");
	text[0] = '\0';
	for (line = 0; line < 100; line++)
		strcat(text, "bad\n");
	put("user.conf", text);
	config = load(NULL, COLL_ERR_CONFIG, "a hundred wrong lines");
	ok(has_note(config, "not read beyond line 20"), "twenty are enough");
	ok(config_diagnostic_count(config) < 30, "%d notes", config_diagnostic_count(config));
	config_free(config);
	unsetenv("COLL_CONFIG");
}

static void test_refused_files(void)
{
	struct config *config;
	int fd;

	setenv("COLL_CONFIG", at("nosuch.conf"), 1);
	config = load(NULL, COLL_ERR_CONFIG, "named file is missing");
	has_str(error_text(), "nosuch.conf: cannot read this configuration file: No such", "said");
	config_free(config);
	setenv("COLL_CONFIG", dir, 1);
	config = load(NULL, COLL_ERR_CONFIG, "named file is a directory");
	has_str(error_text(), "it is a directory", "said");
	config_free(config);
	if (mkfifo(at("fifo"), 0600))
		bail_out("mkfifo");
	setenv("COLL_CONFIG", at("fifo"), 1);
	config = load(NULL, COLL_ERR_CONFIG, "named file is a FIFO nobody writes to");
	has_str(error_text(), "it is not a regular file", "said");
	config_free(config);
	fd = open(at("fifo"), O_RDWR);
	config = load(NULL, COLL_ERR_CONFIG, "or that somebody holds open");
	config_free(config);
	close(fd);
	setenv("COLL_CONFIG", "/dev/zero", 1);
	config = load(NULL, COLL_ERR_CONFIG, "/dev/zero");
	config_free(config);
	unsetenv("COLL_CONFIG");
	if (symlink("nowhere", at("sys/coll.conf.d/50-x.conf")))
		bail_out("symlink");
	config = load(NULL, COLL_ERR_CONFIG, "dangling link in coll.conf.d");
	has_str(error_text(), "coll.conf.d/50-x.conf: cannot read", "said");
	config_free(config);
	unlink(at("sys/coll.conf.d/50-x.conf"));
	if (symlink(at("fifo"), at("sys/coll.conf")))
		bail_out("symlink");
	config = load(NULL, COLL_ERR_CONFIG, "system file is a FIFO");
	config_free(config);
	unlink(at("sys/coll.conf"));
	if (geteuid() == 0) {
		skip(2, "root may read everything");
		return;
	}
	put("user.conf", "");
	chmod(at("user.conf"), 0);
	setenv("COLL_CONFIG", at("user.conf"), 1);
	config = load(NULL, COLL_ERR_CONFIG, "unreadable file");
	has_str(error_text(), "Permission denied", "said");
	config_free(config);
	unlink(at("user.conf"));
	unsetenv("COLL_CONFIG");
}

/* A file may name plugins, so others must not be able to change the file. */
static void test_changeable_files(void)
{
	struct config *config;

	put("user.conf", "");
	chmod(at("user.conf"), 0666);
	refuse("poll = 3us\n", "user.conf: cannot read this configuration file: refused for "
			       "safety: others may write to the file");
	has_str(error_text(), "mode 0666", "the mode, too");
	unlink(at("user.conf"));
	chmod(at("home"), 0777);
	put("home/.config/coll/coll.conf", "poll = 3us\n");
	config = load(NULL, COLL_ERR_CONFIG, "a home directory that all may write");
	has_str(error_text(),
		"home/.config/coll/coll.conf: cannot read this configuration file: "
		"refused for safety: others may write to the directory",
		"said");
	config_free(config);
	setenv("COLL_TRUST", at("home"), 1);
	config = load(NULL, 0, "COLL_TRUST names the tree");
	is_int(config_int(config, "poll"), 3, "then it is read");
	ok(has_note(config, "coll.conf: read because of COLL_TRUST: others may write"), "noted");
	config_free(config);
	unsetenv("COLL_TRUST");
	unlink(at("home/.config/coll/coll.conf"));
	config = load(NULL, 0, "no file in such a directory");
	config_free(config);
	chmod(at("home"), 0755);
	put("sys/coll.conf.d/50-x.conf", "poll = 3us\n");
	chmod(at("sys/coll.conf.d"), 0777);
	config = load(NULL, COLL_ERR_CONFIG, "a coll.conf.d that all may write");
	has_str(error_text(), "50-x.conf: cannot read", "names the file");
	config_free(config);
	chmod(at("sys/coll.conf.d"), 0755);
	config = load(NULL, 0, "put right");
	config_free(config);
	if (geteuid() != 0) {
		skip(2, "files of other users need root");
	} else {
		if (chown(at("sys/coll.conf.d/50-x.conf"), 65534, (gid_t)-1))
			bail_out("chown");
		config = load(NULL, COLL_ERR_CONFIG, "a system file of another user");
		has_str(error_text(), "another user owns the file", "said");
		config_free(config);
	}
	unlink(at("sys/coll.conf.d/50-x.conf"));
}

/* ----------------------------------------------------------------- coll.conf -- */

struct sample {
	char section[32], key[64], value[512];
};

/* A value that goes on in further lines: puts it together, and writes those lines, no longer commented. */
static void read_further_lines(char *value, size_t size, FILE *in, FILE *out)
{
	char line[512];
	size_t len;

	while ((len = strlen(value)) && value[len - 1] == '\\' && fgets(line, sizeof(line), in)) {
		fputs(line + 1, out);
		line[strcspn(line, "\n")] = '\0';
		snprintf(value + len - 1, size - len + 1, "%s", line + 1 + strspn(line + 1, " "));
	}
}

/*
 * Reads the commented options of conf/coll.conf; also writes them, no longer commented, to
 * sample.conf.
 */
static int read_samples(struct sample *sample, int room)
{
	const char *top = getenv("top_srcdir");
	char path[4096], line[512], section[32] = "";
	FILE *in, *out = fopen(at("sample.conf"), "w");
	int n = 0;

	snprintf(path, sizeof(path), "%s/conf/coll.conf", top ? top : ".");
	in = fopen(path, "r");
	if (!in || !out)
		bail_out("cannot read %s", path);
	while (fgets(line, sizeof(line), in)) {
		struct sample *s = &sample[n];

		sscanf(line, "[%31[a-z]]", section);
		s->value[0] = '\0';
		if (n < room && sscanf(line, "#%63[a-z_] = %511[^\n]", s->key, s->value) >= 1 &&
		    line[1 + strlen(s->key)] == ' ' && line[2 + strlen(s->key)] == '=') {
			snprintf(s->section, sizeof(s->section), "%s", section);
			n++;
			fputs(line + 1, out);
			read_further_lines(s->value, sizeof(s->value), in, out);
		} else {
			fputs(line, out);
		}
	}
	fclose(in);
	fclose(out);
	return n;
}

/* Is the option in the sample file, with the right default?  Removes the option. */
static void in_sample(struct sample *sample, int n, const char *section, const char *key,
		      const char *fallback)
{
	int i;

	for (i = 0; i < n; i++)
		if (strcmp(sample[i].section, section) == 0 && strcmp(sample[i].key, key) == 0)
			break;
	if (!ok(i < n, "coll.conf has %s.%s", section, key))
		return;
	is_str(sample[i].value, fallback ? fallback : "", "with its default");
	sample[i].key[0] = '\0';
}

static void options_in_sample(struct sample *sample, int n, const char *name, struct config *config,
			      const coll_option_t *options, uint32_t count)
{
	for (uint32_t k = 0; k < count; k++)
		in_sample(sample, n, name, options[k].key, options[k].fallback);
	is_int(config_declare(config, name, options, count), 0, "values of [%s] are good: %s", name,
	       error_text());
}

/* Returns the table that the plugin exports; without a plugin the options in its section pass. */
static const void *plugin_table(struct sample *sample, int n, const char *prefix, const char *name,
				const char *symbol)
{
	const char *top = getenv("top_builddir");
	const void *table;
	char path[4096];
	void *file;

	snprintf(path, sizeof(path), "%s/.libs/%s_%s.so", top ? top : ".", prefix, name);
	file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	table = file ? dlsym(file, symbol) : NULL;
	if (table)
		return table;
	skip(1, "%s is not built", path);
	for (int k = 0; k < n; k++)
		if (strcmp(sample[k].section, name) == 0)
			sample[k].key[0] = '\0';
	return NULL;
}

static void plugin_in_sample(struct sample *sample, int n, const char *name, struct config *config)
{
	const coll_backend_t *backend = plugin_table(sample, n, "coll", name, COLL_BACKEND_SYMBOL);
	char priority[16];

	if (!backend)
		return;
	snprintf(priority, sizeof(priority), "%d", (int)backend->priority);
	in_sample(sample, n, name, "priority", priority);
	options_in_sample(sample, n, name, config, backend->options, backend->option_count);
}

static void observer_in_sample(struct sample *sample, int n, const char *name,
			       struct config *config)
{
	const coll_observer_t *observer =
		plugin_table(sample, n, "observer", name, COLL_OBSERVER_SYMBOL);

	if (observer)
		options_in_sample(sample, n, name, config, observer->options,
				  observer->option_count);
}

static void test_sample(void)
{
	struct sample sample[100];
	int i, n = read_samples(sample, 100);
	struct config *config;

	setenv("COLL_CONFIG", at("sample.conf"), 1);
	error_set(0, "%s", "");
	config = load(NULL, 0, "coll.conf with all its comments taken away");
	for (i = 0; i < config_core_count; i++)
		in_sample(sample, n, "", config_core_options[i].key,
			  config_core_options[i].fallback);
	plugin_in_sample(sample, n, "tcp", config);
	plugin_in_sample(sample, n, "simulated", config);
	plugin_in_sample(sample, n, "nccl", config);
	plugin_in_sample(sample, n, "mpi", config);
	plugin_in_sample(sample, n, "ucc", config);
	plugin_in_sample(sample, n, "ucx", config);
	observer_in_sample(sample, n, "timeline", config);
	observer_in_sample(sample, n, "otlp", config);
	for (i = 0; i < n; i++)
		if (sample[i].key[0])
			ok(0, "%s.%s exists", sample[i].section, sample[i].key);
	config_free(config);
	unsetenv("COLL_CONFIG");
}

/* ---------------------------------------------------------------------- fuzz -- */

static uint64_t fuzz_state = 88172645463325252u;

static uint32_t fuzz_random(uint32_t below)
{
	fuzz_state ^= fuzz_state << 13;
	fuzz_state ^= fuzz_state >> 7;
	fuzz_state ^= fuzz_state << 17;
	return (uint32_t)(fuzz_state >> 33) % below;
}

static size_t fuzz_mutate(char *text, size_t len, size_t room)
{
	static const char interesting[] = "\n\r[]=:;#\0 \t.\\\xef\xff"
					  "9";
	size_t pos = fuzz_random((uint32_t)len + 1), n = fuzz_random(40);

	switch (fuzz_random(4)) {
	case 0: /* replace */
		if (pos < len)
			text[pos] = interesting[fuzz_random(sizeof(interesting))];
		return len;
	case 1: /* remove */
		n = n < len - pos ? n : len - pos;
		memmove(text + pos, text + pos + n, len - pos - n);
		return len - n;
	case 2: /* repeat the following text */
		n = n < len - pos ? n : len - pos;
		if (len + n > room)
			return len;
		memmove(text + pos + n, text + pos, len - pos);
		return len + n;
	default: /* cut */ return fuzz_random(8) ? len : pos;
	}
}

static void test_fuzz(void)
{
	static const char seed[] =
		"# comment\nbackend = tcp\ntimeout = 5s ; x\n\n[net]\n"
		"lanes = 3\ninterface: eth0\r\n[other]\nkey=value\nbuffer=1.5M\n";
	int i, k, code, declared, odd = 0, good = 0;
	struct config *config;
	char text[1024];
	size_t len;

	setenv("COLL_CONFIG", at("user.conf"), 1);
	for (i = 0; i < 4000; i++) {
		len = sizeof(seed) - 1;
		memcpy(text, seed, len);
		for (k = 1 + (int)fuzz_random(6); k; k--)
			len = fuzz_mutate(text, len, sizeof(text));
		put_bytes("user.conf", text, len);
		error_set(0, "%s", "");
		code = config_load(NULL, rules_check_option, &config);
		odd += code && (code != COLL_ERR_CONFIG || !strstr(error_text(), "user.conf:"));
		declared = declare_net(config);
		odd += declared && declared != COLL_ERR_CONFIG;
		good += !code && !declared;
		for (k = config_diagnostic_count(config); k--;)
			odd += !config_diagnostic(config, k)[0];
		config_free(config);
	}
	is_int(odd, 0, "4000 mutated files: read, or refused with a place");
	ok(good > 100 && good < 3900, "%d of them read", good);
	unsetenv("COLL_CONFIG");
}

int main(void)
{
	const int before = open_files();

	config_dir_begin();
	test_lines();
	test_refused_lines();
	test_many_options();
	test_further_lines();
	test_long_lines();
	test_line_numbers();
	test_refused_files();
	test_changeable_files();
	is_int(open_files(), before, "no file stays open, whatever is wrong with it");
	test_sample();
	test_fuzz();
	config_dir_end();
	return done_testing();
}
