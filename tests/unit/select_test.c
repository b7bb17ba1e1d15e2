/* SPDX-License-Identifier: BSD-3-Clause */
/* select_test.c - which backend is taken, by one process and by ranks that must agree. */
#include "base/error.h"
#include "plugin/select_impl.h"
#include "../lib/plugin_dir.h"

#include <pthread.h>

/* ---------------------------------------------------------------------- helpers -- */

enum { RANKS = 4, PLUGINS = 4 };

/* One rank's world: what is installed there and what its user says. */
struct world {
	struct plugin_list list;
	struct plugin item[PLUGINS];
	char note[1][768];
	struct config *config;
	const char *backend;
	int local_code;
	const char *local_text;
	/* after agree() */
	struct bootstrap *bootstrap;
	int in_process;
	int code;
	char name[32];
	char text[1024];
};

static void add(struct world *w, const char *name, int priority, uint32_t flags)
{
	struct plugin *p = &w->item[w->list.count++];

	snprintf(p->name, sizeof(p->name), "%s", name);
	snprintf(p->path, sizeof(p->path), "/x/coll_%s.so", name);
	snprintf(p->priority_source, sizeof(p->priority_source), "plugin");
	p->priority = priority;
	p->backend = (coll_backend_t){.size = sizeof(p->backend), .name = name, .version = "1.0"};
	p->backend.flags = flags;
	p->backend.memory = COLL_MEM_HOST;
}

/* In the order of priority, as plugins_load makes it. */
static void make_world(struct world *w, const char *backend)
{
	memset(w, 0, sizeof(*w));
	w->list.item = w->item;
	w->list.note = w->note;
	w->list.note_count = 1;
	snprintf(w->note[0], sizeof(w->note[0]), "plugin directory '/x' (built-in): 3 plugins");
	add(w, "ucx", 50, 0);
	add(w, "simulated", 20, COLL_BACKEND_IN_PROCESS | COLL_BACKEND_BY_NAME);
	add(w, "tcp", 10, 0);
	w->backend = backend;
}

static void make_worlds(struct world *w)
{
	for (int r = 0; r < RANKS; r++)
		make_world(&w[r], NULL);
}

static void refuse(struct world *w, const char *name, int code, const char *reason)
{
	struct plugin *p = (struct plugin *)plugins_find(&w->list, name);

	p->code = code;
	snprintf(p->reason, sizeof(p->reason), "%s", reason);
}

static void load_conf(struct world *w)
{
	coll_config_t app;

	coll_config_init(&app, sizeof(app));
	app.backend = w->backend;
	if (config_load(&app, &w->config))
		bail_out("configuration: %s", error_text());
}

/* ------------------------------------------------------------------- one process -- */

static char why[PLUGINS][768];

static void local(struct world *w, int in_process, int code, const char *name, const char *what)
{
	const struct plugin *chosen;
	int got;

	memset(why, 0, sizeof(why));
	load_conf(w);
	got = select_local(w->config, &w->list, in_process, &chosen, why);
	is_int(got, code, "%s", what);
	is_str(chosen ? chosen->name : NULL, name, "%s: choice", what);
	if (got)
		diag("%s", error_text());
	config_free(w->config);
}

static void local_with(const char *backend, int in_process, int code, const char *name)
{
	static struct world w;

	make_world(&w, backend);
	local(&w, in_process, code, name, backend ? backend : "nothing said");
}

static void test_by_priority(void)
{
	static struct world w;

	local_with(NULL, 0, 0, "ucx");
	is_str(why[0], "chosen: highest priority (50, plugin) of the usable backends", "why ucx");
	is_str(why[1], "passed over: only for ranks that all live in one process", "why simulated");
	is_str(why[2], "passed over: 'ucx' has a higher priority (50, plugin)", "why tcp");

	make_world(&w, NULL);
	refuse(&w, "ucx", COLL_ERR_PLUGIN, "libucp.so.0: missing");
	local(&w, 0, 0, "tcp", "unusable ones are passed over unless named");
	is_str(why[0], "passed over: it cannot be used", "why not ucx");
	local(&w, 1, 0, "simulated", "all ranks in one process: simulated by its priority");

	refuse(&w, "tcp", COLL_ERR_SYSTEM, "no sockets");
	local(&w, 0, COLL_ERR_NOT_FOUND, NULL, "nothing is usable");
	has_str(error_text(), "'ucx': libucp.so.0: missing", "with the reason of the one");
	has_str(error_text(), "'tcp': no sockets", "and of the other");
	has_str(error_text(), "'simulated': it works only if all ranks live in one process",
		"and of the third");

	make_world(&w, NULL);
	w.item[2].priority = 50;
	local(&w, 0, 0, "ucx", "equal priorities");
	is_str(why[2], "passed over: 'ucx' has the same priority (50) and comes first by name",
	       "why");

	make_world(&w, NULL);
	w.list.count = 0;
	local(&w, 0, COLL_ERR_NOT_FOUND, NULL, "nothing installed");
	has_str(error_text(), "plugin directory '/x'", "says where was searched");
}

static void test_lists(void)
{
	static struct world w;

	local_with("tcp", 0, 0, "tcp");
	has_str(why[2], "chosen: backend=tcp (application) names it", "why tcp");
	has_str(why[0], "does not name it", "why not ucx");
	local_with("tcp,ucx", 0, 0, "tcp");
	has_str(why[0], "passed over: 'tcp' comes first in", "why not ucx");
	local_with(" ucx , tcp ", 0, 0, "ucx");
	local_with("tcp,,", 0, 0, "tcp");
	local_with("  ", 0, 0, "ucx");
	local_with("tcp,simulated", 0, 0, "tcp");
	local_with("simulated", 1, 0, "simulated");
	local_with("simulated,tcp", 0, COLL_ERR_UNSUPPORTED, NULL);
	has_str(error_text(), "only if all ranks live in one process", "says so");
	local_with("tcp,nosuch", 0, 0, "tcp");

	make_world(&w, "ucx,tcp");
	refuse(&w, "ucx", COLL_ERR_DEVICE, "libucp.so.0: cannot open shared object file");
	local(&w, 0, COLL_ERR_DEVICE, NULL, "a named one that cannot be used is an error");
	is_str(error_text(),
	       "backend 'ucx' cannot be used: libucp.so.0: cannot open shared object file",
	       "with its reason");
	has_str(why[0], "but it cannot be used", "why not ucx");
	has_str(why[2], "the first backend there cannot be used", "why not tcp");
}

static void test_wrong_lists(void)
{
	local_with("tpc", 0, COLL_ERR_NOT_FOUND, NULL);
	is_str(error_text(),
	       "there is no backend 'tpc' (backend=tpc (application)); found: ucx, simulated, tcp; "
	       "did you mean 'tcp'?",
	       "known ones and a guess");
	local_with("TCP", 0, COLL_ERR_NOT_FOUND, NULL);
	has_str(error_text(), "did you mean 'tcp'", "capitals");
	local_with("nosuch,tcp", 0, COLL_ERR_NOT_FOUND, NULL);
	local_with("tcp,^ucx", 0, COLL_ERR_CONFIG, NULL);
	has_str(error_text(), "'^'", "mixing");
	local_with(",", 0, COLL_ERR_CONFIG, NULL);
	has_str(error_text(), "names no backend", "only a comma");
	local_with("^", 0, COLL_ERR_CONFIG, NULL);
}

static void test_exclusions(void)
{
	static struct world w;
	char text[768];

	local_with("^ucx", 0, 0, "tcp");
	has_str(why[0], "excluded by backend=^ucx", "why not ucx");
	local_with("^ucx,tcp", 0, COLL_ERR_NOT_FOUND, NULL);
	has_str(error_text(), "'tcp': it is excluded by backend=^ucx,tcp (application)", "says so");
	local_with("^ ucx, ^tcp", 1, 0, "simulated");
	local_with("^nosuch", 0, 0, "ucx");

	setenv("COLL_BACKEND", "^tcpp", 1);
	make_world(&w, NULL);
	load_conf(&w);
	ok(select_excludes_unknown(w.config, &w.list, text, sizeof(text)), "unknown and excluded");
	is_str(text,
	       "COLL_BACKEND=^tcpp excludes 'tcpp', but there is no such backend; found: ucx, "
	       "simulated, tcp; did you mean 'tcp'?",
	       "is worth a note");
	config_free(w.config);
	setenv("COLL_BACKEND", "^tcp", 1);
	load_conf(&w);
	ok(!select_excludes_unknown(w.config, &w.list, text, sizeof(text)), "known and excluded");
	config_free(w.config);
	unsetenv("COLL_BACKEND");
}

/* -------------------------------------------------------------------- many ranks -- */

static void *agree_rank(void *arg)
{
	struct world *w = arg;
	const struct plugin *chosen;

	if (w->local_code)
		error_set(w->local_code, "%s", w->local_text);
	w->code = select_agree(w->bootstrap, w->config, w->local_code ? NULL : &w->list,
			       w->in_process, w->local_code, &chosen);
	snprintf(w->name, sizeof(w->name), "%s", chosen ? chosen->name : "");
	snprintf(w->text, sizeof(w->text), "%s", w->code ? error_text() : "");
	return NULL;
}

/* All ranks in threads of their own; each must come to this result, and to this text. */
static void agree(struct world *w, int in_process, int code, const char *name, const char *text,
		  const char *what)
{
	struct bootstrap *bootstraps[RANKS];
	pthread_t thread[RANKS];
	int same = 0;

	if (bootstrap_open_local(bootstraps, RANKS))
		bail_out("boot: %s", error_text());
	for (int r = 0; r < RANKS; r++) {
		w[r].bootstrap = bootstraps[r];
		w[r].in_process = in_process;
		load_conf(&w[r]);
		if (pthread_create(&thread[r], NULL, agree_rank, &w[r]))
			bail_out("no thread");
	}
	for (int r = 0; r < RANKS; r++) {
		pthread_join(thread[r], NULL);
		bootstrap_close(bootstraps[r]);
		config_free(w[r].config);
		same += w[r].code == w[0].code && !strcmp(w[r].name, w[0].name) &&
			!strcmp(w[r].text, w[0].text);
	}
	is_int(same, RANKS, "%s: all ranks agree", what);
	is_int(w[0].code, code, "%s: code", what);
	is_str(w[0].name, name, "%s: choice", what);
	has_str(w[0].text, text, "%s: text", what);
}

static struct world worlds[RANKS];

static void test_agree(void)
{
	make_worlds(worlds);
	agree(worlds, 0, 0, "ucx", "", "nothing said");
	make_worlds(worlds);
	refuse(&worlds[3], "ucx", COLL_ERR_PLUGIN, "libucp.so.0: missing");
	agree(worlds, 0, 0, "tcp", "", "the best that all can use");
	make_worlds(worlds);
	refuse(&worlds[3], "ucx", COLL_ERR_PLUGIN, "libucp.so.0: missing");
	agree(worlds, 1, 0, "simulated", "", "in one process");
	make_worlds(worlds);
	worlds[0].item[2].priority = 90; /* plugins_load would sort it first */
	worlds[0].list.item = &worlds[0].item[2];
	worlds[0].list.count = 1;
	agree(worlds, 0, 0, "tcp", "", "rank 0's priorities count");
	make_worlds(worlds);
	worlds[1].backend = "^ucx";
	agree(worlds, 0, 0, "tcp", "", "excluded on one rank");
}

static void test_agree_errors(void)
{
	make_worlds(worlds);
	for (int r = 0; r < RANKS; r++)
		worlds[r].backend = "ucx,tcp";
	refuse(&worlds[3], "ucx", COLL_ERR_PLUGIN, "libucp.so.0: missing");
	agree(worlds, 0, COLL_ERR_PLUGIN, "",
	      "rank 3 cannot use backend 'ucx': libucp.so.0: missing", "named, unusable on rank 3");

	make_worlds(worlds);
	worlds[2].backend = "ucx";
	worlds[3].list.item = &worlds[3].item[1];
	worlds[3].list.count = 2;
	agree(worlds, 0, COLL_ERR_NOT_FOUND, "",
	      "rank 3: there is no backend 'ucx' (backend=ucx (application)); found: simulated, "
	      "tcp",
	      "named by rank 2, not installed on rank 3");

	make_worlds(worlds);
	worlds[0].backend = "ucx";
	worlds[3].backend = "tcp";
	agree(worlds, 0, COLL_ERR_CONFIG, "", "rank 0 asks for 'ucx', rank 3 for 'tcp'",
	      "nothing in common");

	make_worlds(worlds);
	worlds[1].backend = "ucx";
	worlds[2].backend = "^ucx";
	agree(worlds, 0, COLL_ERR_CONFIG, "",
	      "rank 2 cannot use backend 'ucx': it is excluded by backend=^ucx (application)",
	      "named here, excluded there");

	make_worlds(worlds);
	worlds[2].backend = "tcp,^ucx";
	agree(worlds, 0, COLL_ERR_CONFIG, "", "rank 2: backend=tcp,^ucx (application) names",
	      "wrong list on one rank");

	make_worlds(worlds);
	worlds[1].local_code = COLL_ERR_CONFIG;
	worlds[1].local_text = "/etc/coll.conf:3: unknown option 'tiemout'\tor\nso";
	agree(worlds, 0, COLL_ERR_CONFIG, "",
	      "rank 1: /etc/coll.conf:3: unknown option 'tiemout' or so", "a rank had failed");
}

static void test_agree_lists(void)
{
	make_worlds(worlds);
	worlds[1].backend = "tcp,ucx";
	worlds[2].backend = "ucx,tcp";
	agree(worlds, 0, 0, "tcp", "", "the lowest rank's order counts");
	make_worlds(worlds);
	worlds[1].backend = "nosuch,tcp";
	worlds[2].backend = "tcp";
	agree(worlds, 0, 0, "tcp", "", "what is not in all lists does not count");
	make_worlds(worlds);
	worlds[3].backend = "tcp";
	agree(worlds, 0, 0, "tcp", "", "one list alone");
	make_worlds(worlds);
	for (int r = 0; r < RANKS; r++)
		worlds[r].backend = "tcp,simulated";
	agree(worlds, 0, 0, "tcp", "", "tcp,simulated between processes");
	for (int r = 0; r < RANKS; r++)
		worlds[r].backend = "simulated,tcp";
	agree(worlds, 0, COLL_ERR_UNSUPPORTED, "",
	      "cannot use backend 'simulated': it keeps all ranks in one process",
	      "simulated,tcp between processes");
	agree(worlds, 1, 0, "simulated", "", "simulated,tcp in one process");
}

static void test_agree_versions(void)
{
	struct capabilities caps;

	make_worlds(worlds);
	worlds[2].item[0].backend.version = "1.1";
	agree(worlds, 0, COLL_ERR_VERSION, "",
	      "backend 'ucx' has version 1.0 on rank 0 but 1.1 on rank 2", "other plugin version");
	is_int(capabilities_read(&caps, strdup("coll-offer\t2\t9.9.9\nwhatever"), 7),
	       COLL_ERR_VERSION, "another libcoll");
	has_str(error_text(), "rank 7 runs libcoll 9.9.9", "is named");
	has_str(error_text(), coll_version_string(), "and this one");
	capabilities_free(&caps);
}

/* ------------------------------------------------------------- texts from others -- */

/* Nothing that arrives can do harm: it is read, or refused as another version. */
static void test_damaged_offers(void)
{
	static const char good[] = "coll-offer\t1\t0.1.0\nasks\tCOLL_BACKEND=tcp\nnamed\ttcp\n"
				   "have\ttcp\t1.0\t10\t0\t1\t\nhave\tucx\t1\t5\t20\t1\tno\n";
	const size_t len = strlen(good);
	struct capabilities caps;
	int read = 0, refused = 0;

	for (size_t i = 0; i < len * 4; i++) {
		char *text = strdup(good);

		if (i < len)
			text[i] = '\0';
		else
			text[i % len] = "\t\n\x80"[i / len - 1];
		if (capabilities_read(&caps, text, 1)) {
			refused++;
		} else {
			const char *name;

			select_choose(&caps, 1, &name);
			read++;
		}
		capabilities_free(&caps);
	}
	is_int(read + refused, (int)len * 4, "%d damaged texts: %d read, %d refused", (int)len * 4,
	       read, refused);
	ok(read > 0 && refused > 0, "both happen");
	is_int(capabilities_read(&caps, strdup(capabilities_poor), 3), 0, "text without memory");
	is_int(caps.code, COLL_ERR_NO_MEMORY, "its code");
	capabilities_free(&caps);
}

static void refused(const char *lines, const char *words)
{
	struct capabilities caps;
	char *text = NULL;

	if (asprintf(&text, "coll-offer\t1\t0.1.0\n%s", lines) < 0)
		bail_out("no memory");
	is_int(capabilities_read(&caps, text, 1), COLL_ERR_REMOTE, "%s", words);
	has_str(error_text(), words, "names the line");
	has_str(error_text(), "the list of backends of rank 1 is damaged", "and the rank");
	ok(caps.n_named == 0 && caps.n == 0, "no row is filled");
	capabilities_free(&caps);
}

/* A line without the fields that belong to its first word. */
static void test_short_lines(void)
{
	refused("named\nnamed\n", "a line 'named' has 1 of 2 fields");
	refused("have\nhave\nhave\n", "a line 'have' has 1 of 7 fields");
	refused("have\ttcp\t1.0\t10\t0\t1\n", "a line 'have' has 6 of 7 fields");
	refused("failed\t5\n", "a line 'failed' has 2 of 3 fields");
	refused("asks", "a line 'asks' has 1 of 2 fields");
	refused("where\n", "a line 'where' has 1 of 2 fields");
}

/* The exchange of one rank over an application's function that alters every offer alike. */
static int32_t altering_exchange(void *user, const void *in, void *out, size_t len,
				 int64_t timeout_ms)
{
	char *at = out;

	(void)user, (void)timeout_ms;
	for (int r = 0; r < 2; r++, at += len) {
		memcpy(at, in, len);
		for (size_t i = 0; i + 8 <= len; i++)
			if (!memcmp(at + i, "have\tucx", 8))
				memcpy(at + i, "have\txyz", 8);
	}
	return 0;
}

static void test_altered_name(void)
{
	static struct world w;
	const struct plugin *chosen = NULL;
	struct bootstrap *bootstrap;

	make_world(&w, NULL);
	load_conf(&w);
	if (bootstrap_open_user(&bootstrap, altering_exchange, NULL, 0, 2, 60000))
		bail_out("boot: %s", error_text());
	is_int(select_agree(bootstrap, w.config, &w.list, 0, 0, &chosen), COLL_ERR_REMOTE,
	       "a backend that this rank does not have");
	has_str(error_text(), "agree on 'xyz', which rank 0 never offered", "is named");
	bootstrap_close(bootstrap);
	config_free(w.config);
}

/* --------------------------------------------------------------------- after a step -- */

static void *all_ok_rank(void *arg)
{
	struct world *w = arg;

	if (w->local_code)
		error_set(w->local_code, "%s", w->local_text);
	w->code = select_all_ok(w->bootstrap, w->local_code, 60000);
	snprintf(w->text, sizeof(w->text), "%s", w->code ? error_text() : "");
	return NULL;
}

static void all_ok(int code, const char *text, const char *what)
{
	struct bootstrap *bootstraps[RANKS];
	pthread_t thread[RANKS];

	if (bootstrap_open_local(bootstraps, RANKS))
		bail_out("boot: %s", error_text());
	for (int r = 0; r < RANKS; r++) {
		worlds[r].bootstrap = bootstraps[r];
		if (pthread_create(&thread[r], NULL, all_ok_rank, &worlds[r]))
			bail_out("no thread");
	}
	for (int r = 0; r < RANKS; r++) {
		pthread_join(thread[r], NULL);
		bootstrap_close(bootstraps[r]);
		is_int(worlds[r].code, code, "%s: rank %d", what, r);
		is_str(worlds[r].text, text, "%s: text on rank %d", what, r);
	}
}

static void test_all_ok(void)
{
	make_worlds(worlds);
	all_ok(0, "", "all well");
	worlds[2].local_code = COLL_ERR_DEVICE;
	worlds[2].local_text = "device 0 is on fire";
	worlds[3].local_code = COLL_ERR_SYSTEM;
	worlds[3].local_text = "";
	all_ok(COLL_ERR_DEVICE, "rank 2: device 0 is on fire", "two failed");
}

int main(void)
{
	plugin_dir_begin();
	test_by_priority();
	test_lists();
	test_wrong_lists();
	test_exclusions();
	test_agree();
	test_agree_errors();
	test_agree_lists();
	test_agree_versions();
	test_damaged_offers();
	test_short_lines();
	test_altered_name();
	test_all_ok();
	plugin_dir_end();
	return done_testing();
}
