/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loader_test.c - the plugins that the loader finds in directories, and its refusals with their
 * texts.
 */
#include "base/error.h"
#include "plugin/loader.h"
#include "base/log.h"
#include "plugin/plugin_impl.h"
#include "../lib/plugin_dir.h"

#include <pthread.h>

/* ---------------------------------------------------------------------- helpers -- */

struct found {
	struct config *config;
	struct plugin_list *list;
	int code;
};

/* Loads the plugins in the directories, which are separated by ':'. */
static struct found find(const char *path)
{
	struct found found = {0};
	coll_config_t app;

	coll_config_init(&app, sizeof(app));
	app.plugin_path = path;
	if (config_load(&app, NULL, &found.config))
		bail_out("configuration: %s", error_text());
	found.code = plugins_load(found.config, PLUGINS_ALLOWED | PLUGINS_IDLE, 0, &found.list);
	if (!found.list)
		bail_out("no list: %s", error_text());
	return found;
}

static void done(struct found *found)
{
	plugins_free(found->list);
	config_free(found->config);
}

static int has_note(const struct found *found, const char *a, const char *b)
{
	for (int i = 0; i < found->list->note_count; i++)
		if (strstr(found->list->note[i], a) && strstr(found->list->note[i], b))
			return 1;
	for (int i = 0; i < found->list->note_count; i++)
		diag("  note: %s", found->list->note[i]);
	return 0;
}

/*
 * The loader refuses the one plugin of a directory with this code, and a text that contains both
 * pieces.
 */
static void refused(const char *in, int code, const char *a, const char *b)
{
	struct found found = find(at(in));
	const struct plugin *p = found.list->item;

	if (is_int(found.list->count, 1, "%s: one candidate", in)) {
		is_int(p->code, code, "%s: code", in);
		has_str(p->reason, a, "%s: says what", in);
		has_str(p->reason, b, "%s: says where or what instead", in);
		diag("%s", p->reason);
		ok(!p->backend.size, "%s: nothing of it is used", in);
	}
	done(&found);
}

/* Makes a directory with one plugin of a given file and name. */
static void refused_file(const char *in, const char *file, const char *as, int code, const char *a,
			 const char *b)
{
	char name[128];

	make_dir(in);
	snprintf(name, sizeof(name), "%s/%s", in, as);
	place(file, name);
	refused(in, code, a, b);
}

/* --------------------------------------------------------------------- good ones -- */

static void test_good(void)
{
	struct found found;
	const struct plugin *p;

	make_dir("good");
	place("coll_good.so", "good/coll_good.so");
	put("good/README", "read me", 7);
	put("good/coll_good.so~", "old", 3);
	put("good/coll_good.so.bak", "old", 3);
	put("good/.coll_good.so.swp", "new", 3);
	put("good/coll_good.la", "libtool", 7);
	put("good/libcoll.so", "", 0);
	put("good/coll_.so", "", 0);
	make_dir("good/coll_folder.so");
	if (mkfifo(at("good/coll_pipe.so"), 0600))
		bail_out("mkfifo");
	found = find(at("good"));
	is_int(found.code, 0, "loads");
	is_int(found.list->count, 1, "README, backups, folder, pipe and .la are no candidates");
	p = plugins_find(found.list, "good");
	if (!p)
		bail_out("no plugin 'good'");
	is_int(p->code, 0, "usable");
	is_str(p->reason, "", "no reason");
	is_str(p->path, at("good/coll_good.so"), "path");
	is_str(p->backend.version, "1.0", "version");
	is_int(p->priority, 30, "priority");
	is_str(p->priority_source, "plugin", "set by the plugin");
	ok(p->backend.transport == &p->transport && !p->backend.native, "own copies of groups");
	ok(p->backend.options == p->options, "own copy of options");
	is_str(config_string(found.config, "good.greeting"), "hello", "its options are declared");
	plugins_describe(found.list, found.config);
	is_str(p->info, "hello, 2 lanes, no number 0, no text right, rank 0 of 0", "info");
	ok(has_note(&found, at("good"), "(application): 1 plugin"), "directory noted");
	ok(!plugins_find(found.list, "bad") && !plugins_find(found.list, ""), "others not found");
	done(&found);
}

static void test_newer(void)
{
	struct found found;
	const struct plugin *p;

	make_dir("newer");
	place("coll_newer.so", "newer/coll_newer.so");
	found = find(at("newer"));
	p = plugins_find(found.list, "newer");
	if (!p)
		bail_out("no plugin 'newer'");
	is_int(p->code, 0, "a newer minor with larger structs is usable (%s)", p->reason);
	is_int(p->backend.abi_minor, COLL_BACKEND_ABI_MINOR + 7, "its minor is known");
	ok(p->transport.send && p->transport.progress && !p->transport.cancel, "its transport");
	is_str(p->options[1].key, "second", "its options, by its own stride");
	is_int(p->backend.option_size, sizeof(coll_option_t), "stride of the copy");
	done(&found);
}

static void set_host_priority(struct found *found, const char *name, int32_t priority)
{
	for (int i = 0; i < found->list->count; i++)
		if (!strcmp(found->list->item[i].name, name))
			found->list->item[i].backend.host_priority = priority;
}

static void test_priorities(void)
{
	struct found found;
	const struct plugin_list *list;

	make_dir("order");
	place("coll_good.so", "order/coll_good.so");
	place("coll_newer.so", "order/coll_newer.so");
	place("coll_unable.so", "order/coll_unable.so");
	put("order/coll_broken.so", "text", 4);
	found = find(at("order"));
	list = found.list;
	is_int(list->count, 4, "all are listed");
	is_str(list->item[0].name, "unable", "highest priority first, even if its probe says no");
	is_str(list->item[1].name, "good", "then the next");
	is_str(list->item[2].name, "newer", "then the last");
	is_str(list->item[3].name, "broken", "what was refused comes last");
	done(&found);

	found = find(at("order"));
	set_host_priority(&found, "newer", 31);
	set_host_priority(&found, "good", -7);
	plugins_place(found.list, found.config, 1);
	is_str(found.list->item[1].name, "newer", "the priority within a host counts");
	is_int(found.list->item[1].priority, 31, "it is in force");
	is_str(found.list->item[1].priority_source, "plugin, within one host", "its source");
	is_int(found.list->item[2].priority, -7, "it may be negative");
	ok(found.list->item[1].backend.transport == &found.list->item[1].transport,
	   "a plugin that has moved uses its own tables");
	is_str(found.list->item[0].priority_source, "plugin", "none: the same as between hosts");
	plugins_place(found.list, found.config, 0);
	is_str(found.list->item[1].name, "good", "the old order");
	found.list->uses_cuda = 1;
	plugins_place(found.list, found.config, 1);
	is_str(found.list->item[1].name, "good", "the old order, too");
	done(&found);

	setenv("COLL_NEWER_PRIORITY", "29", 1);
	found = find(at("order"));
	set_host_priority(&found, "newer", 31);
	plugins_place(found.list, found.config, 1);
	is_str(found.list->item[1].name, "good", "which stays");
	done(&found);

	setenv("COLL_NEWER_PRIORITY", "30", 1);
	found = find(at("order"));
	is_str(found.list->item[1].name, "good", "equal priorities: by name");
	is_str(found.list->item[2].priority_source, "COLL_NEWER_PRIORITY", "who set it");
	done(&found);
	setenv("COLL_NEWER_PRIORITY", "31", 1);
	found = find(at("order"));
	is_str(found.list->item[1].name, "newer", "one more: first");
	done(&found);
	unsetenv("COLL_NEWER_PRIORITY");

	setenv("COLL_GOOD_LANES", "99", 1);
	found = find(at("order"));
	is_int(found.code, COLL_ERR_CONFIG, "a wrong value of a backend's option");
	has_str(error_text(), "COLL_GOOD_LANES", "names its source");
	is_int(found.list->count, 4, "the list is made nevertheless");
	done(&found);
	unsetenv("COLL_GOOD_LANES");
}

static void test_unable(void)
{
	struct found found;
	const struct plugin *p;

	make_dir("unable");
	place("coll_unable.so", "unable/coll_unable.so");
	found = find(at("unable"));
	p = plugins_find(found.list, "unable");
	is_int(found.code, 0, "a probe that says no is no error");
	is_int(p ? p->code : -1, COLL_ERR_DEVICE, "its code");
	is_str(p ? p->reason : "", "libfabulous.so.3: cannot open shared object file",
	       "its words, unchanged");
	is_str(p ? p->backend.version : "", "1.0", "what it says about itself is known");
	done(&found);
}

/* ---------------------------------------------------------------------- bad files -- */

static void test_bad_files(void)
{
	static const char text[] = "This is not a shared object, whatever its name says; and it is "
				   "longer than the header of one.";

	/* The dependency must be missing before another plugin has loaded it. */
	refused_file("gone", "coll_indirect.so", "coll_indirect.so", COLL_ERR_PLUGIN,
		     "libpart.so: cannot open shared object file", at("gone/coll_indirect.so"));
	make_dir("elsewhere");
	place("libpart.so", "elsewhere/libpart.so");
	place("coll_indirect.so", "elsewhere/coll_indirect.so");
	refused("elsewhere", COLL_ERR_ABI, "does not export coll_backend_v1 itself",
		at("elsewhere/libpart.so"));
	refused_file("undefined", "coll_undefined.so", "coll_undefined.so", COLL_ERR_PLUGIN,
		     "undefined symbol: does_not_exist_anywhere",
		     at("undefined/coll_undefined.so"));
	refused_file("nosymbol", "coll_nosymbol.so", "coll_nosymbol.so", COLL_ERR_ABI,
		     "does not export coll_backend_v1", "COLL_BACKEND_EXPORT");

	make_dir("text");
	put("text/coll_text.so", text, sizeof(text) - 1);
	refused("text", COLL_ERR_PLUGIN, "invalid ELF header", at("text/coll_text.so"));
	make_dir("empty");
	put("empty/coll_empty.so", "", 0);
	refused("empty", COLL_ERR_PLUGIN, "file too short", at("empty/coll_empty.so"));
	make_dir("dangling");
	if (symlink("nowhere", at("dangling/coll_dangling.so")))
		bail_out("symlink");
	refused("dangling", COLL_ERR_PLUGIN, "No such file or directory",
		at("dangling/coll_dangling.so"));
}

/* The loader refuses a truncated file, wherever it ends, and the process survives. */
static void test_truncated(void)
{
	size_t len, step;
	char *bytes = slurp(built("coll_good.so"), &len);
	struct loader_file *file;
	int first, loaded = 0, cuts = 0, worded = 0;

	make_dir("cut");
	step = len / 199 + 1;
	for (size_t n = 0; n < len; n += step, cuts++) {
		char name[64];

		snprintf(name, sizeof(name), "cut/coll_cut%zu.so", n);
		put(name, bytes, n);
		loaded += loader_open(at(name), &file, &first) == COLL_SUCCESS;
		worded += strstr(error_text(), "truncated") || strstr(error_text(), "too short");
		unlink(at(name));
	}
	free(bytes);
	is_int(loaded, 0, "cut at %d places: none loads", cuts);
	is_int(worded, cuts, "and the words say so");
	make_dir("truncated");
	place_part("coll_good.so", "truncated/coll_good.so", 60);
	refused("truncated", COLL_ERR_PLUGIN, "truncated", at("truncated/coll_good.so"));
}

static void test_bad_tables(void)
{
	struct found found;

	refused_file("major", "coll_major.so", "coll_major.so", COLL_ERR_ABI,
		     "built for backend ABI 2", "speaks ABI 1");
	refused_file("short", "coll_short.so", "coll_short.so", COLL_ERR_ABI,
		     "coll_backend_t is 40", "sizeof(coll_backend_t)");
	refused_file("noopen", "coll_noopen.so", "coll_noopen.so", COLL_ERR_ABI,
		     "leaves `open` empty", "mandatory");
	refused_file("alias", "coll_good.so", "coll_alias.so", COLL_ERR_ABI,
		     "holds the backend 'good'", "must be called coll_good.so");
	refused_file("Upper", "coll_good.so", "coll_Good.so", COLL_ERR_PLUGIN, "coll_<name>.so",
		     at("Upper/coll_Good.so"));

	make_dir("badoption");
	place("coll_badoption.so", "badoption/coll_badoption.so");
	place("coll_good.so", "badoption/coll_good.so");
	found = find(at("badoption"));
	is_int(found.code, 0, "a wrong declaration is only its own plugin's trouble");
	is_int(found.list->item[0].code, COLL_ERR_ABI, "that is refused");
	has_str(found.list->item[0].reason, "'lanes'", "naming the option");
	is_int(found.list->item[1].code, 0, "the other one is usable");
	done(&found);
}

/* ------------------------------------------------------------ tables in memory -- */

static int32_t fake_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	(void)host;
	(void)ep;
	(void)err;
	return 0;
}

static void fake_close(void *ep, int64_t timeout_ms)
{
	(void)ep;
	(void)timeout_ms;
}

static int32_t fake_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	(void)ep;
	(void)send;
	(void)err;
	return 0;
}

static int32_t fake_number(void *ep)
{
	(void)ep;
	return 0;
}

static int32_t fake_step(void *ep, coll_error_t *err)
{
	(void)ep;
	(void)err;
	return 0;
}

static int32_t fake_event(void *ep, void **event, coll_error_t *err)
{
	(void)ep;
	(void)event;
	(void)err;
	return 0;
}

static void fake_cancel(void *ep, coll_send_t *send)
{
	(void)ep;
	(void)send;
}

static void fake_drop_message(void *ep, uint64_t cookie)
{
	(void)ep;
	(void)cookie;
}

static int32_t fake_split(void *ep, int32_t color, int32_t key, const coll_host_t *newhost,
			  void **newep, coll_error_t *err)
{
	(void)ep;
	(void)color;
	(void)key;
	(void)newhost;
	(void)newep;
	(void)err;
	return 0;
}

static void fake_free(void *ptr)
{
	(void)ptr;
}

static void fake_drop(void *ep, void *handle)
{
	(void)ep;
	(void)handle;
}

static coll_transport_t transport;
static coll_native_t native;
static coll_option_t options[2];
static coll_backend_t table;

static void make_table(void)
{
	transport = (coll_transport_t){
		.size = sizeof(transport), .send = fake_send, .progress = fake_number};
	native = (coll_native_t){.size = sizeof(native), .query = fake_step};
	table = (coll_backend_t){.size = sizeof(table),
				 .name = "fake",
				 .version = "1",
				 .memory = COLL_MEM_HOST,
				 .transport = &transport,
				 .open = fake_open,
				 .close = fake_close};
}

/* Validates the table; words: expected in the reason, NULL if the table must be accepted. */
static void take(const char *words, const char *what)
{
	struct plugin *p = calloc(1, sizeof(*p));
	int code;

	if (!p)
		bail_out("no memory");
	p->kind = &plugin_backends;
	strcpy(p->name, "fake");
	strcpy(p->path, "/x/coll_fake.so");
	code = plugin_take(p, &table);
	is_int(code, words ? COLL_ERR_ABI : COLL_SUCCESS, "%s", what);
	is_int(p->code, code, "code is kept");
	has_str(p->reason, words ? words : "", "%s: words", what);
	free(p->options);
	free(p);
	make_table();
}

static void test_mandatory(void)
{
	make_table();
	take(NULL, "complete");
	table.close = NULL;
	take("`close`", "no close");
	table.name = NULL;
	take("`name`", "no name");
	table.name = "Fake";
	take("calls itself 'Fake'", "name with a capital");
	table.name = "a23456789012345678901234567890123";
	take("at most 31 bytes", "name too long");
	table.version = NULL;
	take("`version`", "no version");
	table.memory = 0;
	take("no kind of memory", "no memory");
	table.transport = NULL;
	take("neither a transport nor a native group", "no group");
	table.transport = NULL;
	table.native = &native;
	take(NULL, "native only");
	table.size = 0;
	take("coll_backend_t is 0", "size 0");
}

static void test_groups(void)
{
	transport.send = NULL;
	take("transport->send", "no send");
	transport.progress = NULL;
	take("transport->progress", "no progress");
	transport.size = offsetof(coll_transport_t, memory);
	take(NULL, "a transport of minor 0");
	transport.size = offsetof(coll_transport_t, forked);
	take("coll_transport_t is", "short transport");
	transport.arm = fake_number;
	take("transport->arm but leaves transport->wait_fd NULL", "arm without wait_fd");
	transport.cancel = fake_cancel;
	take("transport->cancel but leaves transport->drop NULL", "cancel without drop");
	transport.mem_deregister = fake_drop;
	take("transport->mem_register", "half of registration");
	transport.mem_free = fake_free;
	take("transport->mem_free but leaves transport->mem_alloc NULL", "mem_free alone");

	table.native = &native;
	native.query = NULL;
	take("native->query", "no query");
	table.native = &native;
	native.size = 16;
	take("coll_native_t is 16", "short native");
	table.native = &native;
	native.group_begin = fake_step;
	take("native->group_end", "group_begin alone");
	table.native = &native;
	native.mem_free = fake_free;
	take("native->mem_free but leaves native->mem_alloc NULL", "mem_free alone");
	table.native = &native;
	native.event_create = fake_event;
	take("1 of the 6 native->event_*", "some events");
}

static void test_native_split(void)
{
	table.native = &native;
	table.flags = COLL_BACKEND_NATIVE_SPLIT;
	take("leaves native->split NULL", "a native split without split");
	table.native = &native;
	table.flags = COLL_BACKEND_NATIVE_SPLIT;
	native.split = fake_split;
	take("leaves transport->cancel and transport->drop NULL", "a native split without cancel");
	table.native = &native;
	table.flags = COLL_BACKEND_NATIVE_SPLIT;
	native.split = fake_split;
	transport.cancel = fake_cancel;
	transport.drop = fake_drop_message;
	take(NULL, "a native split");
}

static void test_options(void)
{
	table.option_count = 1;
	table.option_size = sizeof(coll_option_t);
	take("leaves `options` NULL", "options missing");
	table.options = options;
	table.option_count = 2;
	table.option_size = sizeof(coll_option_t) - 8;
	take("option_size", "stride too short");
	table.options = options;
	table.option_count = 2;
	table.option_size = sizeof(coll_option_t) + 4;
	take("option_size", "stride not aligned");
	table.options = options;
	table.option_count = 4000000000u;
	table.option_size = sizeof(coll_option_t);
	take("4000000000", "too many options");
	table.options = options;
	table.option_count = 2;
	table.option_size = sizeof(coll_option_t);
	take(NULL, "two options");
}

/* -------------------------------------------------------------------- directories -- */

static void test_directories(void)
{
	char path[600];
	struct found found;

	make_dir("first");
	make_dir("second");
	place("coll_good.so", "first/coll_good.so");
	place("coll_good.so", "second/coll_good.so");
	place("coll_newer.so", "second/coll_newer.so");
	snprintf(path, sizeof(path), "%s::%s:%s/nosuch:%s/../first", at("first"), at("second"),
		 at(""), at("first"));
	found = find(path);
	is_int(found.list->count, 3, "a directory named twice is searched once");
	is_str(plugins_find(found.list, "good")->path, at("first/coll_good.so"),
	       "the earlier directory wins");
	is_int(found.list->item[2].code, COLL_ERR_PLUGIN, "the later one is refused");
	has_str(found.list->item[2].reason, at("first/coll_good.so"), "naming the earlier");
	has_str(found.list->item[2].reason, at("second/coll_good.so"), "and the later");
	ok(has_note(&found, at("nosuch"), "No such file or directory"), "missing directory noted");
	ok(has_note(&found, at("second"), ": 2 plugins"), "candidates counted");
	done(&found);

	make_dir("second/below");
	place("coll_unable.so", "second/below/coll_unable.so");
	snprintf(path, sizeof(path), "%s:%s", at("second/below"), at("second"));
	found = find(path);
	is_int(found.list->count, 3, "a directory above an earlier one is searched");
	done(&found);

	put("file", "", 0);
	found = find(at("file"));
	ok(has_note(&found, at("file"), "Not a directory"), "a file is no directory");
	is_int(found.list->count, 0, "and holds nothing");
	done(&found);
}

/* Root can read every file, so the test runs as another user. */
static void test_unreadable(void)
{
	const int root = geteuid() == 0;
	struct found found;

	make_dir("closed");
	place("coll_good.so", "closed/coll_good.so");
	if (chmod(dir, 0755) || chmod(at("closed"), 0))
		bail_out("chmod");
	if (root && seteuid(65534)) {
		skip(2, "cannot become another user");
	} else {
		found = find(at("closed"));
		ok(has_note(&found, at("closed"), "Permission denied"),
		   "unreadable directory noted");
		is_int(found.list->count, 0, "nothing is found in it");
		done(&found);
	}
	if (root && seteuid(0))
		bail_out("cannot become root again");
	chmod(at("closed"), 0755);
}

static void own(const char *name, int owner)
{
	if (lchown(at(name), (uid_t)owner, (gid_t)-1))
		bail_out("chown %s", at(name));
}

static void test_permissions(void)
{
	struct found found;

	make_dir("above");
	make_dir("above/open");
	place("coll_good.so", "above/open/coll_good.so");
	chmod(at("above/open/coll_good.so"), 0757);
	refused("above/open", COLL_ERR_PERMISSION, "others may write to the file",
		at("above/open/coll_good.so"));
	chmod(at("above/open/coll_good.so"), 0755);
	chmod(at("above/open"), 01777);
	refused("above/open", COLL_ERR_PERMISSION, "others may write to the directory",
		"mode 1777");
	chmod(at("above/open"), 0755);
	chmod(at("above"), 0777);
	refused("above/open", COLL_ERR_PERMISSION, "others may write to the directory",
		at("above"));
	chmod(at("above"), 01777);
	found = find(at("above/open"));
	is_int(found.list->item[0].code, 0, "below a sticky directory it loads");
	done(&found);
	chmod(at("above"), 0755);

	make_dir("public");
	chmod(at("public"), 0777);
	place("coll_newer.so", "public/libnewer.so");
	make_dir("linked");
	if (symlink("../public/libnewer.so", at("linked/coll_newer.so")))
		bail_out("symlink");
	refused("linked", COLL_ERR_PERMISSION, "others may write to the directory", at("public"));
	setenv("COLL_TRUST", at("public"), 1);
	found = find(at("linked"));
	is_int(found.list->item[0].code, 0, "COLL_TRUST opens the link's directory (%s)",
	       found.list->item[0].reason);
	ok(has_note(&found, at("linked/coll_newer.so"), "because of COLL_TRUST"), "with a note");
	done(&found);
	unsetenv("COLL_TRUST");
}

static void test_other_owner(void)
{
	struct found found;

	if (geteuid() != 0) {
		skip(1, "files of other users need root");
		return;
	}
	chmod(at("above/open/coll_good.so"), 0775);
	refused("above/open", COLL_ERR_PERMISSION, "others may write to the file", "mode 0775");
	chmod(at("above/open/coll_good.so"), 0755);
	own("above/open/coll_good.so", 65534);
	refused("above/open", COLL_ERR_PERMISSION, "another user owns the file", "owner 65534");
	own("above/open/coll_good.so", 0);
	own("above/open", 65534);
	refused("above/open", COLL_ERR_PERMISSION, "another user owns the directory",
		at("above/open"));
	own("above/open", 0);
	own("above", 65534);
	refused("above/open", COLL_ERR_PERMISSION, "another user owns the directory", at("above"));
	setenv("COLL_TRUST", at("above"), 1);
	found = find(at("above/open"));
	is_int(found.list->item[0].code, 0, "COLL_TRUST takes a tree of another user");
	done(&found);
	unsetenv("COLL_TRUST");
	own("above", 0);
	found = find(at("above/open"));
	is_int(found.list->item[0].code, 0, "put right it loads");
	done(&found);
}

/* The path of a plugin directory leads through another user's links or directories to root's own directory. */
static void test_other_owner_path(void)
{
	struct found found;

	if (geteuid() != 0) {
		skip(1, "files of other users need root");
		return;
	}
	make_dir("theirs");
	if (symlink("above/open", at("their_link")) ||
	    symlink("../above/open", at("theirs/my_link")))
		bail_out("symlink");
	found = find(at("their_link"));
	is_int(found.list->item[0].code, 0, "root's link to a directory is followed");
	done(&found);
	own("their_link", 65534);
	own("theirs", 65534);
	refused("their_link", COLL_ERR_PERMISSION, "another user owns the symbolic link",
		at("their_link"));
	refused("theirs/my_link", COLL_ERR_PERMISSION, "another user owns the directory",
		at("theirs"));
	refused("theirs/../above/open", COLL_ERR_PERMISSION, "another user owns the directory",
		at("theirs"));
	setenv("COLL_TRUST", at("their_link"), 1);
	found = find(at("their_link"));
	is_int(found.list->item[0].code, 0, "COLL_TRUST names the link (%s)",
	       found.list->item[0].reason);
	ok(has_note(&found, at("their_link"), "because of COLL_TRUST"), "with a note");
	done(&found);
	unsetenv("COLL_TRUST");
}

/* ------------------------------------------------------------------------ companions -- */

/* Loads a directory with the backend `beside` and with tcp. */
static struct found companion_find(const char *beside, const char *backend)
{
	struct found found = {0};
	coll_config_t app;

	coll_config_init(&app, sizeof(app));
	app.plugin_path = at(beside);
	app.backend = backend;
	if (config_load(&app, NULL, &found.config))
		bail_out("configuration: %s", error_text());
	found.code = plugins_load(found.config, PLUGINS_ALLOWED, 1, &found.list);
	return found;
}

static void companion_is(const char *beside, const char *backend, int open, const char *reason,
			 const char *what)
{
	struct found found = companion_find(beside, backend);
	const struct plugin *p;

	p = plugins_find(found.list, "tcp");
	is_int(p->backend.size != 0, open, "%s: %s", what, open ? "opened" : "not opened");
	is_int(p->code, COLL_ERR_CONFIG, "%s: ruled out", what);
	has_str(p->reason, reason, "%s: the reason", what);
	p = plugins_probe(found.list, found.config, "tcp");
	is_int(p->code, open ? 0 : COLL_ERR_CONFIG, "%s: probed", what);
	plugins_open(found.list, found.config, "tcp");
	p = plugins_probe(found.list, found.config, "tcp");
	is_int(p->code, 0, "%s: opened late", what);
	ok(p->backend.transport == &p->transport, "%s: its own tables", what);
	is_str(config_string(found.config, "tcp.unix"), "yes", "%s: its options", what);
	done(&found);
}

/* A list that lacks the companion of a backend without a transport does not rule it out wholly. */
static void test_companions(void)
{
	const char *top = getenv("top_builddir");
	char tcp[512];

	snprintf(tcp, sizeof(tcp), "%s/.libs/coll_tcp.so", top ? top : ".");
	make_dir("engine");
	place("coll_ondevice.so", "engine/coll_ondevice.so");
	place_file(tcp, "engine/coll_tcp.so");
	make_dir("transport");
	place("coll_good.so", "transport/coll_good.so");
	place_file(tcp, "transport/coll_tcp.so");
	companion_is("engine", "ondevice", 1, "it was not probed", "beside an engine");
	companion_is("engine", "^tcp", 0, "it was not opened", "excluded by name");
	companion_is("transport", "good", 0, "it was not opened", "beside a transport");
	setenv("COLL_COMPANION", "none", 1);
	companion_is("engine", "ondevice", 0, "it was not opened", "no companion");
	setenv("COLL_COMPANION", "ucx", 1);
	companion_is("engine", "ondevice", 0, "it was not opened", "another companion");
	unsetenv("COLL_COMPANION");
}

/* ------------------------------------------------------------------------- threads -- */

enum { THREADS = 8 };

static pthread_barrier_t together;
static char shared_dir[128];

static void *load_all(void *arg)
{
	int *usable = arg;
	struct found found;

	pthread_barrier_wait(&together);
	found = find(shared_dir);
	for (int i = 0; i < found.list->count; i++)
		*usable += !found.list->item[i].code;
	done(&found);
	return NULL;
}

static void test_threads(void)
{
	pthread_t thread[THREADS];
	int usable[THREADS] = {0}, all = 0;

	make_dir("threads");
	place("coll_good.so", "threads/coll_good.so");
	place("coll_newer.so", "threads/coll_newer.so");
	place("coll_unable.so", "threads/coll_unable.so");
	place("coll_nosymbol.so", "threads/coll_nosymbol.so");
	put("threads/coll_text.so", "text", 4);
	snprintf(shared_dir, sizeof(shared_dir), "%s", at("threads"));
	pthread_barrier_init(&together, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, load_all, &usable[i]))
			bail_out("no thread");
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		all += usable[i];
	}
	pthread_barrier_destroy(&together);
	is_int(all, 2 * THREADS, "%d threads load the same files at once", THREADS);
}

int main(void)
{
	plugin_dir_begin();
	test_good();
	test_newer();
	test_priorities();
	test_unable();
	test_bad_files();
	test_truncated();
	test_bad_tables();
	test_mandatory();
	test_groups();
	test_native_split();
	test_options();
	test_directories();
	test_unreadable();
	test_permissions();
	test_other_owner();
	test_other_owner_path();
	test_companions();
	test_threads();
	plugin_dir_end();
	return done_testing();
}
