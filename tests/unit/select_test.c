/* SPDX-License-Identifier: BSD-3-Clause */
/* select_test.c - the choice of the backend, by one process and by ranks that must agree. */
#include "base/error.h"
#include "plugin/select_impl.h"
#include "../lib/plugin_dir.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---------------------------------------------------------------------- helpers -- */

enum { RANKS = 4, PLUGINS = 4 };

/* One rank's world: the plugins installed there and the settings of its user. */
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
	char name[64];
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
	p->backend.priority = priority;
	p->backend.memory = COLL_MEM_HOST;
}

/* Adds a plugin in the order of priority, as plugins_load does. */
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
	struct plugin *p = plugins_find(&w->list, name);

	p->code = code;
	snprintf(p->reason, sizeof(p->reason), "%s", reason);
}

static void load_config(struct world *w)
{
	coll_config_t app;

	coll_config_init(&app, sizeof(app));
	app.backend = w->backend;
	if (config_load(&app, NULL, &w->config))
		bail_out("configuration: %s", error_text());
}

/* ------------------------------------------------------------------- one process -- */

static char why[PLUGINS][768];

static void local(struct world *w, int in_process, int code, const char *name, const char *what)
{
	const struct plugin *chosen;
	int got;

	memset(why, 0, sizeof(why));
	load_config(w);
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
	load_config(&w);
	ok(select_excludes_unknown(w.config, &w.list, text, sizeof(text)), "unknown and excluded");
	is_str(text,
	       "COLL_BACKEND=^tcpp excludes 'tcpp', but there is no such backend; found: ucx, "
	       "simulated, tcp; did you mean 'tcp'?",
	       "is worth a note");
	config_free(w.config);
	setenv("COLL_BACKEND", "^tcp", 1);
	load_config(&w);
	ok(!select_excludes_unknown(w.config, &w.list, text, sizeof(text)), "known and excluded");
	config_free(w.config);
	unsetenv("COLL_BACKEND");
}

/* -------------------------------------------------------------------- many ranks -- */

static void *agree_rank(void *arg)
{
	struct world *w = arg;
	const struct plugin *chosen;
	int by_name;

	if (w->local_code)
		error_set(w->local_code, "%s", w->local_text);
	w->code = select_agree(w->bootstrap, w->config, w->local_code ? NULL : &w->list,
			       w->in_process, w->local_code, &chosen, &by_name);
	snprintf(w->name, sizeof(w->name), "%s", chosen ? chosen->name : "");
	snprintf(w->text, sizeof(w->text), "%s", w->code ? error_text() : "");
	return NULL;
}

/* Runs each rank in a thread of its own. */
static void on_all_ranks(struct world *w, int in_process, void *(*run)(void *))
{
	struct bootstrap *bootstraps[RANKS];
	pthread_t thread[RANKS];

	if (bootstrap_open_local(bootstraps, RANKS))
		bail_out("boot: %s", error_text());
	for (int r = 0; r < RANKS; r++) {
		w[r].bootstrap = bootstraps[r];
		w[r].in_process = in_process;
		load_config(&w[r]);
		if (pthread_create(&thread[r], NULL, run, &w[r]))
			bail_out("no thread");
	}
	for (int r = 0; r < RANKS; r++) {
		pthread_join(thread[r], NULL);
		bootstrap_close(bootstraps[r]);
		config_free(w[r].config);
	}
}

/* Each rank must get this result and this text. */
static void agree(struct world *w, int in_process, int code, const char *name, const char *text,
		  const char *what)
{
	int same = 0;

	on_all_ranks(w, in_process, agree_rank);
	for (int r = 0; r < RANKS; r++)
		same += w[r].code == w[0].code && !strcmp(w[r].name, w[0].name) &&
			!strcmp(w[r].text, w[0].text);
	is_int(same, RANKS, "%s: all ranks agree", what);
	is_int(w[0].code, code, "%s: code", what);
	is_str(w[0].name, name, "%s: choice", what);
	has_str(w[0].text, text, "%s: text", what);
}

static struct world worlds[RANKS];

/* ------------------------------------------------------------------------- probes -- */

static _Atomic int probes_of_ucx, probes_of_tcp, probes_that_fail;

static int32_t probe_ucx(const coll_host_t *host, coll_error_t *err)
{
	(void)host;
	if (atomic_fetch_add(&probes_of_ucx, 1) >= atomic_load(&probes_that_fail))
		return COLL_SUCCESS;
	snprintf(err->text, sizeof(err->text), "no such device");
	return COLL_ERR_DEVICE;
}

static int32_t probe_tcp(const coll_host_t *host, coll_error_t *err)
{
	(void)host;
	(void)err;
	atomic_fetch_add(&probes_of_tcp, 1);
	return COLL_SUCCESS;
}

/* No plugin of any rank is probed yet; of the next probes of ucx so many fail. */
static void make_unprobed(int that_fail)
{
	make_worlds(worlds);
	for (int r = 0; r < RANKS; r++)
		for (int i = 0; i < worlds[r].list.count; i++)
			worlds[r].item[i].unprobed = 1;
	for (int r = 0; r < RANKS; r++) {
		worlds[r].item[0].backend.probe = probe_ucx;
		worlds[r].item[2].backend.probe = probe_tcp;
	}
	atomic_store(&probes_of_ucx, 0);
	atomic_store(&probes_of_tcp, 0);
	atomic_store(&probes_that_fail, that_fail);
}

static void probed(int ucx, int tcp, const char *what)
{
	is_int(atomic_load(&probes_of_ucx), ucx, "%s: probes of ucx", what);
	is_int(atomic_load(&probes_of_tcp), tcp, "%s: probes of tcp", what);
}

/* A rank probes only backends that the ranks may choose. */
static void test_probes(void)
{
	make_unprobed(0);
	agree(worlds, 0, 0, "ucx", "", "the first is usable");
	probed(RANKS, 0, "the first is usable");

	make_unprobed(RANKS);
	agree(worlds, 0, 0, "tcp", "", "the first is usable nowhere");
	probed(RANKS, RANKS, "the first is usable nowhere");

	make_unprobed(1);
	agree(worlds, 0, 0, "tcp", "", "the first is not usable on one rank");
	probed(RANKS, RANKS, "the first is not usable on one rank");

	make_unprobed(0);
	worlds[1].backend = "^ucx";
	agree(worlds, 0, 0, "tcp", "", "the first is excluded on one rank");
	probed(RANKS - 1, RANKS, "the first is excluded on one rank");

	/* Rank 1 prefers tcp, which no other rank can use. */
	make_unprobed(0);
	for (int r = 0; r < RANKS; r++)
		if (r != 1)
			refuse(&worlds[r], "tcp", COLL_ERR_PLUGIN, "missing");
	worlds[1].item[1] = worlds[1].item[2];
	worlds[1].item[2] = worlds[1].item[0];
	worlds[1].list.item = &worlds[1].item[1];
	worlds[1].list.count = 2;
	agree(worlds, 0, 0, "ucx", "", "one rank has probed another one");
	probed(RANKS, 1, "one rank has probed another one");

	make_unprobed(RANKS);
	for (int r = 0; r < RANKS; r++)
		refuse(&worlds[r], "tcp", COLL_ERR_PLUGIN, "missing");
	agree(worlds, 0, COLL_ERR_NOT_FOUND, "", "'ucx': rank 0: no such device",
	      "nothing is usable");
}

/* --------------------------------------------------------------------- the choice -- */

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
	      "rank 1: /etc/coll.conf:3: unknown option 'tiemout'\tor\nso", "a rank had failed");

	make_worlds(worlds);
	refuse(&worlds[1], "ucx", COLL_ERR_PLUGIN, "a\tb\nc");
	worlds[0].backend = "ucx";
	agree(worlds, 0, COLL_ERR_PLUGIN, "", "rank 1 cannot use backend 'ucx': a b c",
	      "a reason with control characters");
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

/* n ranks, of which one has another version of the chosen plugin; -1: none has. */
static int choose_versions(int n, int odd)
{
	struct capabilities_head head;
	struct capabilities caps[RANKS];
	struct filter filter = {0};
	const char *name = NULL;
	void *table[RANKS];
	int code;

	make_worlds(worlds);
	for (int r = 0; r < n; r++) {
		worlds[r].item[0].backend.version = r == odd ? "1.1" : "1.0";
		table[r] = capabilities_pack(&worlds[r].list, &filter, "", &head);
		if (!table[r] || capabilities_unpack(&caps[r], table[r], head.size, r))
			bail_out("%s", error_text());
	}
	code = select_choose(caps, n, &name);
	for (int r = 0; r < n; r++) {
		capabilities_free(&caps[r]);
		free(table[r]);
	}
	return code;
}

/* The version of every rank counts, the last rank's too. */
static void test_every_version(void)
{
	char text[80];

	for (int n = 2; n <= RANKS; n++) {
		is_int(choose_versions(n, -1), 0, "%d ranks: one version", n);
		for (int odd = 1; odd < n; odd++) {
			is_int(choose_versions(n, odd), COLL_ERR_VERSION,
			       "%d ranks: rank %d has another version", n, odd);
			snprintf(text, sizeof(text), "version 1.0 on rank 0 but 1.1 on rank %d",
				 odd);
			has_str(error_text(), text, "is named");
		}
	}
}

static void *companion_rank(void *arg)
{
	struct world *w = arg;
	const struct plugin *chosen = NULL;
	struct companion_wish wish;

	w->code = select_companion_wish(w->bootstrap, w->config, &w->list, &w->item[0], &wish);
	if (!w->code)
		w->code = select_companion(w->bootstrap, w->config, &w->list, &wish, &chosen);
	snprintf(w->name, sizeof(w->name), "%s", chosen ? chosen->name : "");
	snprintf(w->text, sizeof(w->text), "%s", w->code ? error_text() : "");
	return NULL;
}

/* The user has named the companion tcp, of which one rank has another version. */
static void companion_versions(int odd)
{
	char text[120];

	setenv("COLL_COMPANION", "tcp", 1);
	make_worlds(worlds);
	for (int r = 0; r < RANKS; r++) {
		struct plugin *tcp = &worlds[r].item[2];

		tcp->backend.transport = &tcp->transport;
		tcp->backend.version = r == odd ? "1.1" : "1.0";
	}
	on_all_ranks(worlds, 0, companion_rank);
	unsetenv("COLL_COMPANION");
	snprintf(text, sizeof(text),
		 "the companion 'tcp' has version 1.0 on rank 0 but 1.1 on rank %d", odd);
	for (int r = 0; r < RANKS; r++) {
		is_int(worlds[r].code, odd < 0 ? 0 : COLL_ERR_VERSION, "companion: rank %d", r);
		is_str(worlds[r].name, odd < 0 ? "tcp" : "", "companion: rank %d's choice", r);
		has_str(worlds[r].text, odd < 0 ? "" : text, "companion: rank %d's text", r);
	}
}

/* Beside a transport the user's companion has nothing to do where the ranks see each other's processes. */
static void companion_of_transport(uint32_t flags, const char *what)
{
	setenv("COLL_COMPANION", "tcp", 1);
	make_worlds(worlds);
	for (int r = 0; r < RANKS; r++) {
		struct plugin *ucx = &worlds[r].item[0], *tcp = &worlds[r].item[2];

		ucx->backend.transport = &ucx->transport;
		ucx->backend.flags |= flags;
		tcp->backend.transport = &tcp->transport;
	}
	on_all_ranks(worlds, 0, companion_rank);
	unsetenv("COLL_COMPANION");
	for (int r = 0; r < RANKS; r++) {
		is_int(worlds[r].code, 0, "%s: rank %d", what, r);
		is_str(worlds[r].name, "", "%s: rank %d has no companion", what, r);
	}
}

static void test_agree_versions(void)
{
	struct capabilities_head head;
	struct plugin_list none = {0};
	struct filter filter = {0};

	make_worlds(worlds);
	worlds[2].item[0].backend.version = "1.1";
	agree(worlds, 0, COLL_ERR_VERSION, "",
	      "backend 'ucx' has version 1.0 on rank 0 but 1.1 on rank 2", "other plugin version");
	free(capabilities_pack(&none, &filter, "", &head));
	is_int(capabilities_check_head(&head, 7), 0, "this libcoll");
	head.protocol++;
	snprintf(head.version, sizeof(head.version), "9.9.9");
	is_int(capabilities_check_head(&head, 7), COLL_ERR_VERSION, "another libcoll");
	has_str(error_text(), "rank 7 runs libcoll 9.9.9 (protocol 11)", "is named");
	has_str(error_text(), coll_version_string(), "and this one");
	memset(head.version, 'x', sizeof(head.version));
	is_int(capabilities_check_head(&head, 7), COLL_ERR_VERSION, "a version without an end");
	has_str(error_text(), "libcoll xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx (protocol", "is cut");
	memset(&head, 0, sizeof(head));
	is_int(capabilities_check_head(&head, 7), COLL_ERR_VERSION, "a head of zeros");
	has_str(error_text(), "rank 7 runs libcoll ? (protocol 0)", "has no version");
}

/* ---------------------------------------------------- messages that are protected -- */

static const coll_option_t security_option = {
	.key = "security", .fallback = "none", .unit = "none|encrypt", .type = COLL_OPTION_STRING};

/* The backends as plugins_load leaves them: tcp has the option `security`; ucx is as given. */
static void secure(struct world *w, const coll_native_t *native, int one_host)
{
	struct plugin *tcp = &w->item[2];

	load_config(w);
	tcp->backend.options = &security_option;
	tcp->backend.option_count = 1;
	tcp->backend.transport = &tcp->transport;
	w->item[0].backend.native = native;
	w->item[0].backend.transport = native ? NULL : &w->item[0].transport;
	if (config_declare(w->config, "tcp", &security_option, 1))
		bail_out("%s", error_text());
	/* The library looks for the first time before it knows the hosts. */
	plugins_place(&w->list, w->config, 0);
	plugins_place(&w->list, w->config, one_host);
}

/* One process that chooses: the backend, and why the first one was passed over. */
static void secured(const char *backend, int one_host, int in_process, const char *name,
		    const char *text, const char *what)
{
	static const coll_native_t engine;
	const struct plugin *chosen;
	static struct world w;

	make_world(&w, backend);
	secure(&w, NULL, one_host);
	memset(why, 0, sizeof(why));
	select_local(w.config, &w.list, in_process, &chosen, why);
	is_str(chosen ? chosen->name : NULL, name, "%s: choice", what);
	has_str(chosen ? why[0] : error_text(), text, "%s: text", what);
	config_free(w.config);
	if (one_host || in_process || strcmp(name ? name : "", "tcp"))
		return;
	make_world(&w, backend);
	secure(&w, &engine, one_host);
	select_local(w.config, &w.list, in_process, &chosen, why);
	is_str(chosen ? chosen->name : NULL, name, "%s, an engine: choice", what);
	has_str(why[0],
		"but the messages that 'ucx' itself sends between hosts cannot be protected",
		"%s, an engine: has its own sentence", what);
	config_free(w.config);
}

static void test_security(void)
{
	static const char plain[] =
		"option tcp.security is encrypt (COLL_TCP_SECURITY), but 'ucx' does not protect";

	setenv("COLL_TCP_SECURITY", "encrypt", 1);
	secured(NULL, 0, 0, "tcp", plain, "between hosts");
	secured(NULL, 1, 0, "ucx", "highest priority", "within a host");
	secured("simulated", 0, 1, "simulated", "", "within a process");
	secured("ucx", 0, 0, NULL, plain, "by name");
	secured("ucx", 1, 0, "ucx", "", "by name within a host");
	secured("^tcp", 0, 0, NULL, plain, "the protecting one is excluded");
	setenv("COLL_TCP_SECURITY", "none", 1);
	secured(NULL, 0, 0, "ucx", "highest priority", "none");
	setenv("COLL_OTHER_SECURITY", "encrypt", 1);
	secured(NULL, 0, 0, NULL,
		"'tcp': option other.security is encrypt (COLL_OTHER_SECURITY), "
		"but option tcp.security asks for no protection",
		"a backend that is not here");
	setenv("COLL_TCP_SECURITY", "encrypt", 1);
	secured(NULL, 0, 0, "tcp", "", "both are asked, and one is here");
	unsetenv("COLL_OTHER_SECURITY");
	unsetenv("COLL_TCP_SECURITY");
	secured(NULL, 0, 0, "ucx", "highest priority", "nothing said");
}

/* ------------------------------------------------------------ tables from others -- */

/* Builds the table of a rank with two plugins and a list of two names; *size bytes. */
static char *good_table(uint32_t *size)
{
	static struct world w;
	static struct capabilities_head head;
	struct filter filter;
	char *table;

	make_world(&w, "tcp,ucx");
	refuse(&w, "ucx", COLL_ERR_PLUGIN, "no");
	w.list.count = 2;
	load_config(&w);
	if (filter_parse(w.config, &filter))
		bail_out("%s", error_text());
	table = capabilities_pack(&w.list, &filter, "", &head);
	if (!table)
		bail_out("%s", error_text());
	config_free(w.config);
	*size = head.size;
	return table;
}

/* Copies the table to memory of exactly its size, so that a memory checker sees reads beyond it. */
static int unpack(struct capabilities *caps, const char *table, uint32_t size, char **copy)
{
	*copy = malloc(size ? size : 1);
	if (!*copy)
		bail_out("no memory");
	memcpy(*copy, table, size);
	return capabilities_unpack(caps, *copy, size, 1);
}

static void test_good_table(void)
{
	struct capabilities caps;
	uint32_t size;
	char *table = good_table(&size), *copy;

	is_int(unpack(&caps, table, size, &copy), 0, "the table of a rank");
	is_int(caps.n, 2, "two backends");
	is_str(caps.entry[0].name, "ucx", "the first");
	is_int(caps.entry[0].code, COLL_ERR_PLUGIN, "its code");
	is_str(caps.entry[0].reason, "no", "its reason");
	is_str(caps.entry[1].name, "simulated", "the second");
	is_str(caps.entry[1].version, "1.0", "its version");
	is_int(caps.entry[1].priority, 20, "its priority");
	is_str(caps.list, "tcp,ucx", "the list");
	is_str(caps.request, "backend=tcp,ucx (application)", "as it was written");
	capabilities_free(&caps);
	free(copy);
	free(table);
}

/* No table that arrives can do harm: alters every byte and cuts at every length. */
static void test_damaged_tables(void)
{
	static const unsigned char flips[] = {0x01, 0x10, 0x80, 0xff};
	struct capabilities caps;
	uint32_t size, read = 0, refused = 0, odd = 0;
	char *table = good_table(&size), *copy;
	const char *name;

	for (uint32_t i = 0; i < 5 * size; i++) {
		const uint32_t at = i % size, cut = i / size == 4 ? at : size;
		const char flip = (char)(cut == size ? flips[i / size] : 0);

		table[at] ^= flip;
		if (unpack(&caps, table, cut, &copy)) {
			odd += !strstr(error_text(), "the list of backends of rank 1 is damaged");
			refused++;
		} else {
			select_choose(&caps, 1, &name);
			read++;
		}
		table[at] ^= flip;
		capabilities_free(&caps);
		free(copy);
	}
	is_int(read + refused, (int)(5 * size), "%u damaged tables: %u read, %u refused", 5 * size,
	       read, refused);
	is_int(odd, 0, "each is refused by its message");
	ok(read > 0 && refused > size, "both happen; each cut is refused");
	free(table);
}

enum { CODE = 4, AUTOMATIC = 12 }; /* places of the first entry's numbers in bytes */

/* Replaces one number of the table: the reader must refuse it and name the fault. */
static void refused(uint32_t at, uint32_t number, const char *fault, const char *what)
{
	struct capabilities caps;
	uint32_t size;
	char *table = good_table(&size), *copy;

	memcpy(table + at, &number, sizeof(number));
	is_int(unpack(&caps, table, size, &copy), COLL_ERR_REMOTE, "%s", what);
	has_str(error_text(), fault, "names the fault");
	has_str(error_text(), "the list of backends of rank 1 is damaged", "and the rank");
	capabilities_free(&caps);
	free(copy);
	free(table);
}

static void test_wrong_numbers(void)
{
	static const char counts[] = "its counts do not fit its size";
	struct capabilities_head head;
	struct plugin_list none = {0};
	struct filter filter = {0};
	struct capabilities caps;
	char *table, *copy;
	uint32_t size;

	refused(0, 3, counts, "one backend too many");
	refused(0, 1, counts, "one backend too few");
	refused(0, UINT32_MAX, counts, "four thousand million backends");
	refused(0, 0x0aaaaaac, counts, "so many that 32 bits would overflow");
	refused(CODE, 27, "a result code does not exist", "a code beyond the last");
	refused(CODE, UINT32_MAX, "a result code does not exist", "a negative code");
	refused(AUTOMATIC, 2, "a flag is neither 0 nor 1", "a flag");

	table = good_table(&size);
	table[size - 1] = 'x';
	is_int(unpack(&caps, table, size, &copy), COLL_ERR_REMOTE, "a string without end");
	has_str(error_text(), counts, "is named");
	capabilities_free(&caps);
	free(copy);
	free(table);

	free(capabilities_pack(&none, &filter, "", &head));
	head.size = (256 << 10) + 1;
	is_int(capabilities_check_head(&head, 5), COLL_ERR_REMOTE, "a table that is too large");
	has_str(error_text(), "rank 5 announces a list of backends of 262145 bytes", "is named");
}

/* Rank 1 has more plugins than a table holds: every rank gets the error. */
static void test_too_many_plugins(void)
{
	enum { MANY = 400 };
	static struct plugin item[MANY];
	static char names[MANY][32];

	make_worlds(worlds);
	for (int i = 0; i < MANY; i++) {
		item[i] = worlds[1].item[0];
		snprintf(names[i], sizeof(names[i]), "many%d", i);
		memcpy(item[i].name, names[i], sizeof(names[i]));
		item[i].backend.name = names[i];
		item[i].code = COLL_ERR_PLUGIN;
		memset(item[i].reason, 'x', sizeof(item[i].reason) - 1);
	}
	worlds[1].list.item = item;
	worlds[1].list.count = MANY;
	agree(worlds, 0, COLL_ERR_REMOTE, "", "rank 1 has far too many plugins", "400 plugins");
	worlds[1].list.count = 300;
	agree(worlds, 0, COLL_ERR_NOT_FOUND, "", "'ucx': rank 1: it is not installed", "300");
}

/* Exchanges for one rank by an application's function that alters every table alike. */
static int32_t altering_exchange(void *user, const void *in, void *out, size_t len,
				 int64_t timeout_ms)
{
	char *at = out;

	(void)user, (void)timeout_ms;
	for (int r = 0; r < 2; r++, at += len) {
		memcpy(at, in, len);
		for (size_t i = 0; i + 4 <= len; i++)
			if (!memcmp(at + i, "ucx", 4))
				memcpy(at + i, "xyz", 4);
	}
	return 0;
}

static void test_altered_name(void)
{
	static struct world w;
	const struct plugin *chosen = NULL;
	int by_name;
	struct bootstrap *bootstrap;

	make_world(&w, NULL);
	load_config(&w);
	if (bootstrap_open_user(&bootstrap, altering_exchange, NULL, 0, 2, 60000))
		bail_out("boot: %s", error_text());
	is_int(select_agree(bootstrap, w.config, &w.list, 0, 0, &chosen, &by_name), COLL_ERR_REMOTE,
	       "a backend that this rank does not have");
	has_str(error_text(), "agree on 'xyz', which rank 0 does not have", "is named");
	bootstrap_close(bootstrap);
	config_free(w.config);
}

/* Exchanges for one rank and alters the first size, as if a rank had another table. */
static int32_t resizing_exchange(void *user, const void *in, void *out, size_t len,
				 int64_t timeout_ms)
{
	uint32_t *number = user;
	char *at = out;

	(void)timeout_ms;
	number[3]++;
	memcpy(at, in, len);
	memcpy(at + len, in, len);
	for (size_t i = 0; number[1] == 0 && i + 16 <= len; i++)
		if (!memcmp(at + i, "libcoll", 8)) {
			memcpy(at + number[2] * len + i + 12, &number[0], 4);
			number[1] = 1;
		}
	return 0;
}

static void altered_size(uint32_t rank, uint32_t size, uint32_t exchanges, const char *message)
{
	static struct world w;
	const struct plugin *chosen = NULL;
	int by_name;
	struct bootstrap *bootstrap;
	uint32_t number[4] = {size, 1, rank, 0}; /* the last member counts exchanges */

	make_world(&w, NULL);
	load_config(&w);
	if (bootstrap_open_user(&bootstrap, resizing_exchange, number, 0, 2, 60000))
		bail_out("boot: %s", error_text());
	number[1] = number[3] = 0;
	is_int(select_agree(bootstrap, w.config, &w.list, 0, 0, &chosen, &by_name), COLL_ERR_REMOTE,
	       "rank %u announces %u bytes", rank, size);
	has_str(error_text(), message, "is told");
	is_int(number[3], exchanges, "after so many exchanges");
	bootstrap_close(bootstrap);
	config_free(w.config);
}

static void test_altered_size(void)
{
	altered_size(0, 5, 1, "rank 0 came back as 5 instead of ");
	altered_size(0, 0, 1, "rank 0 came back as 0 instead of ");
	altered_size(1, 5, 2, "the list of backends of rank 1 is damaged: its size is impossible");
	altered_size(1, 0, 2, "the list of backends of rank 1 is damaged: its size is impossible");
	altered_size(1, 64, 2, "the list of backends of rank 1 is damaged: its counts do not fit");
	altered_size(1, UINT32_MAX, 1, "rank 1 announces a list of backends of 4294967295 bytes");
}

/* --------------------------------------------------------------------- after a step -- */

static void *all_ok_rank(void *arg)
{
	struct world *w = arg;

	if (w->local_code)
		error_set(w->local_code, "%s", w->local_text);
	w->code = bootstrap_all_ok(w->bootstrap, w->local_code, 60000);
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
	test_probes();
	test_agree();
	test_agree_errors();
	test_agree_lists();
	test_agree_versions();
	test_every_version();
	companion_versions(-1);
	companion_versions(1);
	companion_versions(RANKS - 1);
	companion_of_transport(0, "a transport");
	companion_of_transport(COLL_BACKEND_COMPANION, "a transport that asks for a companion");
	test_security();
	test_good_table();
	test_damaged_tables();
	test_wrong_numbers();
	test_altered_size();
	test_too_many_plugins();
	test_altered_name();
	test_all_ok();
	plugin_dir_end();
	return done_testing();
}
