/* SPDX-License-Identifier: BSD-3-Clause */
/* check.c - `coll check`: the command line, and the report in TAP. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "check/check.h"
#include "check/host/host.h"
#include "check/kit/launched.h"
#include "check/observer/observer.h"
#include "lib/progress.h"
#include "lib/tool.h"

enum {
	CHECK_ONLY_MAX = 256,
	CHECK_KEYS_MAX = 64,
	CHECK_TIMEOUT_MS = 20000,
	CHECK_WAITED_MAX = 3, /* so many failures that use up their time end the run */
	CHECK_DEFAULT_RANKS = 5,
	CHECK_QUICK_RANKS = 2
};

enum { CHECK_STATUS_FAILED = 1, CHECK_STATUS_UNTRIED = 3 };

static const char check_help[] =
	"Usage: coll check [OPTION]... PLUGIN.so\n"
	"       coll check --observer [OPTION]... NAME|OBSERVER.so\n"
	"Holds a backend plugin to the promises of <coll/backend.h> and <coll/coll.h>, or an\n"
	"observer to those of <coll/observer.h>: a file observer_<name>.so, or a NAME that\n"
	"coll info shows.\n"
	"\n"
	"Starts the ranks itself, as threads and as processes of this host, each check in\n"
	"processes of its own, and reports in TAP.  A failed check names the part of backend.h\n"
	"(or coll.h) that holds the broken promise.\n"
	"\n"
	"Options:\n"
	"  -O, --observer         check an observer; not needed for a file observer_<name>.so\n"
	"  -r, --ranks A-B        numbers of ranks (default 1-5; at most 16)\n"
	"  -l, --list             list the checks and end\n"
	"  -o, --only NAME,...    run only these checks\n"
	"  -x, --option KEY=VALUE set an option of the plugin, as its section of coll.conf does\n"
	"  -q, --quick            use fewer ranks and skip long checks\n"
	"  -L, --launched         be one rank of a job that mpirun, srun or coll run has started:\n"
	"                         the checks through coll.h on all its ranks; rank 0 reports\n"
	"  -n, --no-fork          with --launched: run each check in this process, for engines\n"
	"                         that serve no child of it (MPI); skip checks that end a rank\n"
	"  -s, --stop             after a failure skip the later groups of checks\n"
	"  -a, --all              skip no check because another check has failed\n"
	"  -t, --timeout SECONDS  time after which a check counts as hung (default 20)\n"
	"  -h, --help             show this help and exit\n"
	"\n"
	"Exit status: 0 if no check failed, 1 if a check failed, 2 if the command line is\n"
	"wrong, 3 if no check could open an endpoint, for example for want of devices.\n";

static const struct option check_long[] = {
	{"observer", no_argument, NULL, 'O'},
	{"ranks", required_argument, NULL, 'r'},
	{"list", no_argument, NULL, 'l'},
	{"only", required_argument, NULL, 'o'},
	{"option", required_argument, NULL, 'x'},
	{"quick", no_argument, NULL, 'q'},
	{"all", no_argument, NULL, 'a'},
	{"stop", no_argument, NULL, 's'},
	{"launched", no_argument, NULL, 'L'},
	{"no-fork", no_argument, NULL, 'n'},
	{"timeout", required_argument, NULL, 't'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

/* The checks that have failed so far, and how many of these waited in vain for their whole time. */
struct check_broken {
	const struct check *check[CHECK_ONLY_MAX];
	int count, waited;
};

struct check_line {
	struct check_options options;
	const struct check *const *lists; /* of the checks that run */
	const char *only[CHECK_ONLY_MAX + 1];
	int only_count, list, help, launched;
	const char *keys[2 * CHECK_KEYS_MAX + 1];
	int key_count;
};

/* ------------------------------------------------------------------ the command line -- */

static const struct check *check_by_name(const struct check *const *lists, const char *name)
{
	for (int i = 0; lists[i]; i++)
		for (const struct check *check = lists[i]; check->name; check++)
			if (!strcmp(check->name, name))
				return check;
	return NULL;
}

static int check_unknown(const struct check *const *lists, const char *name)
{
	static const char *names[512];
	size_t n = 0;

	for (int i = 0; lists[i]; i++)
		for (const struct check *check = lists[i]; check->name && n < 511; check++)
			names[n++] = check->name;
	names[n] = NULL;
	return tool_usage("check", "no check '%s'%s", name, tool_did_you_mean(name, names));
}

static int check_set_only(struct check_line *line, char *names)
{
	char *state = NULL;

	for (char *name = strtok_r(names, ",", &state); name; name = strtok_r(NULL, ",", &state)) {
		if (line->only_count == CHECK_ONLY_MAX)
			return tool_usage("check", "--only takes at most %d names", CHECK_ONLY_MAX);
		line->only[line->only_count++] = name;
	}
	return 0;
}

/* The names of --only are known once the kind of the plugin is. */
static int check_find_only(const struct check_line *line)
{
	for (int i = 0; i < line->only_count; i++)
		if (!check_by_name(line->lists, line->only[i]))
			return check_unknown(line->lists, line->only[i]);
	return 0;
}

static int check_set_ranks(struct check_line *line, const char *text)
{
	int64_t low, high;

	if (tool_parse_range(text, 1, CHECK_RANKS, &low, &high) != 0)
		return tool_usage("check", "--ranks takes A-B or A, from 1 to %d, not '%s'",
				  CHECK_RANKS, text);
	line->options.ranks_min = (int)low;
	line->options.ranks_max = (int)high;
	line->options.ranks_said = 1;
	return 0;
}

static int check_set_option(struct check_line *line, char *text)
{
	char *equals = strchr(text, '=');

	if (!equals || equals == text)
		return tool_usage("check", "--option takes KEY=VALUE, not '%s'", text);
	if (line->key_count == 2 * CHECK_KEYS_MAX)
		return tool_usage("check", "--option may be repeated at most %d times",
				  CHECK_KEYS_MAX);
	*equals = '\0';
	line->keys[line->key_count++] = text;
	line->keys[line->key_count++] = equals + 1;
	return 0;
}

static int check_set(struct check_line *line, int option, char **argv)
{
	switch (option) {
	case 'r': return check_set_ranks(line, optarg);
	case 'l': line->list = 1; return 0;
	case 'O': line->options.observer = 1; return 0;
	case 'o': return check_set_only(line, optarg);
	case 'x': return check_set_option(line, optarg);
	case 'q': line->options.quick = 1; return 0;
	case 'a': line->options.all = 1; return 0;
	case 's': line->options.stop = 1; return 0;
	case 'L': line->launched = 1; return 0;
	case 'n': line->options.no_fork = 1; return 0;
	case 'h': line->help = 1; return 0;
	case 't':
		if (!tool_parse_seconds(optarg, &line->options.timeout_ms) &&
		    line->options.timeout_ms >= 1000)
			return 0;
		return tool_usage("check", "--timeout takes seconds, at least 1, not '%s'", optarg);
	default: return tool_bad_option("check", option, argv, check_long);
	}
}

/* Copies <name> of the file's name <prefix><name>.so; leaves "" if the file has no such name. */
static void check_set_name(struct check_options *o, const char *file, const char *prefix)
{
	const size_t n = strlen(file), before = strlen(prefix);

	if (n > before + 3 && n - before - 3 < sizeof(o->name) && !strncmp(file, prefix, before) &&
	    !strcmp(file + n - 3, ".so"))
		snprintf(o->name, sizeof(o->name), "%.*s", (int)(n - before - 3), file + before);
}

/* Finds the plugin's absolute path, its directory, and the name that the file gives it. */
static int check_set_path(struct check_line *line, const char *given)
{
	struct check_options *o = &line->options;
	const char *named = o->observer && !strchr(given, '/') ? check_observer_path(given) : NULL;
	const char *file;

	o->path = realpath(named ? named : given, NULL);
	if (!o->path)
		return tool_usage("check", "cannot open '%s': %s%s", given, strerror(errno),
				  o->observer ? ", and no plugin directory has an observer of that "
						"name"
					      : "");
	file = strrchr(o->path, '/') + 1;
	snprintf(o->dir, sizeof(o->dir), "%.*s", (int)(file - o->path > 1 ? file - o->path - 1 : 1),
		 o->path);
	check_set_name(o, file, "observer_");
	o->observer |= o->name[0] != '\0';
	if (!o->observer)
		check_set_name(o, file, "coll_");
	return 0;
}

/* Of an observer: a job needs backends, and the observer nothing. */
static void check_set_kind(struct check_line *line)
{
	struct check_options *o = &line->options;

	line->lists = o->observer ? check_observer_lists : check_lists;
	if (!o->observer)
		return;
	o->needs = check_observer_needs;
	check_observer_find_backends(o->backends, sizeof(o->backends));
}

static int check_read_line(struct check_line *line, int argc, char **argv)
{
	struct check_options *o = &line->options;
	int option, status;

	*line = (struct check_line){.options = {.ranks_min = 1,
						.ranks_max = CHECK_DEFAULT_RANKS,
						.timeout_ms = CHECK_TIMEOUT_MS,
						.needs = check_needs,
						.endpoints = check_endpoints}};
	o->keys = line->keys;
	while ((option = getopt_long(argc, argv, ":Or:lo:x:qasLnt:h", check_long, NULL)) != -1) {
		status = check_set(line, option, argv);
		if (status || line->help)
			return status;
	}
	if (o->quick && !o->ranks_said)
		o->ranks_max = CHECK_QUICK_RANKS;
	if (line->launched && (o->ranks_said || line->list))
		return tool_usage("check", "--launched takes the launcher's ranks and runs checks: "
					   "it does not go with --ranks or --list");
	if (o->no_fork && !line->launched)
		return tool_usage("check", "--no-fork goes with --launched only");
	if (o->all && o->stop)
		return tool_usage("check", "--stop does not go with --all");
	if (argc - optind != 1 && !(line->list && optind == argc))
		return tool_usage("check", "expected one plugin file, got %d", argc - optind);
	status = optind < argc ? check_set_path(line, argv[optind]) : 0;
	if (status)
		return status;
	if (o->observer && line->launched)
		return tool_usage("check", "--launched is for backends only");
	check_set_kind(line);
	return check_find_only(line);
}

/* ------------------------------------------------------------------ the report -- */

/*
 * Prints text of plugins and of the system on one line, without characters that TAP reads as a
 * directive.
 */
static void check_print_text(const char *text)
{
	for (; *text; text++)
		putchar(*text == '\n' ? ' ' : *text == '#' ? '/' : *text);
}

static void check_print(int number, const struct check *check, const struct check_result *result)
{
	const char *at = result->output;

	printf("%s %d - %s: %s [%s]", result->verdict == CHECK_NOT_PASSED ? "not ok" : "ok", number,
	       check->name, check->says, check->promise);
	if (result->verdict == CHECK_SKIPPED) {
		printf(" # SKIP ");
		check_print_text(result->text);
	}
	putchar('\n');
	if (result->verdict == CHECK_PASSED && result->note[0]) {
		printf("#   ");
		check_print_text(result->note);
		putchar('\n');
	}
	if (result->verdict == CHECK_NOT_PASSED) {
		printf("#   ");
		check_print_text(result->text);
		putchar('\n');
		for (int lines = 0; *at && lines < 100; lines++) {
			int n = (int)strcspn(at, "\n");

			printf("#   | %.*s\n", n, at);
			at += n + (at[n] == '\n');
		}
	}
	fflush(stdout);
}

static int check_wanted(const struct check_line *line, const struct check *check)
{
	for (int i = 0; i < line->only_count; i++)
		if (!strcmp(line->only[i], check->name))
			return 1;
	return !line->only_count;
}

/* Returns the failed check on which this check rests, or NULL. */
static const struct check *check_rests_on(const struct check_line *line, const struct check *check,
					  const struct check_broken *broken)
{
	for (int i = 0; i < broken->count && !line->options.all; i++) {
		const struct check *failed = broken->check[i];

		if (failed->group < check->group
			    ? failed->ground || line->options.stop
			    : check->rests && !strcmp(failed->name, check->rests))
			return failed;
	}
	return NULL;
}

/* Runs the check unless the plugin, the options or an earlier failure rule it out. */
static void check_one(const struct check_line *line, const struct check *check,
		      const struct check_broken *broken, struct check_result *result)
{
	const struct check *below = check_rests_on(line, check, broken);

	*result = (struct check_result){.verdict = CHECK_SKIPPED};
	if (below)
		snprintf(result->text, sizeof(result->text), "'%s' failed; mend that first",
			 below->name);
	else if (broken->waited >= CHECK_WAITED_MAX && !line->options.all)
		snprintf(result->text, sizeof(result->text),
			 "%d checks failed after their whole time; mend these first, or give "
			 "--all",
			 broken->waited);
	else if (check->slow && line->options.quick)
		snprintf(result->text, sizeof(result->text), "takes long");
	else
		check_run(check, &line->options, result);
}

struct check_sum {
	int total, passed, skipped, cases;
	int stuck; /* 1: a check goes on in this process, and would disturb the next */
	long long calls;
	int opening, opened;        /* checks that open an endpoint: wanted, and not skipped */
	char why[CHECK_TEXT + 200]; /* the first reason to skip such a check */
	struct check_broken broken;
	struct progress progress;
};

static void check_count(struct check_sum *sum, int counts, const struct check_result *result)
{
	sum->passed += result->verdict == CHECK_PASSED;
	sum->skipped += result->verdict == CHECK_SKIPPED;
	sum->cases += result->cases;
	sum->stuck |= result->stuck;
	sum->calls += result->calls;
	if (!counts)
		return;
	sum->opening++;
	sum->opened += result->verdict != CHECK_SKIPPED;
	if (result->verdict == CHECK_SKIPPED && !sum->why[0])
		snprintf(sum->why, sizeof(sum->why), "%s", result->text);
}

static void check_note_broken(struct check_broken *broken, const struct check *check,
			      const struct check_result *result)
{
	broken->waited += result->waited;
	if (broken->count < CHECK_ONLY_MAX)
		broken->check[broken->count++] = check;
}

/* Advises the user: a fault that one group finds may fail checks of the later groups. */
static void check_advise(const struct check_broken *broken)
{
	const struct check *first = broken->check[0];

	if (broken->count > 1 && broken->check[broken->count - 1]->group > first->group)
		printf("# mend '%s' first: failures of later groups may follow from it\n",
		       first->name);
}

static void check_group(const struct check_line *line, int group, struct check_sum *sum)
{
	const int first = line->options.launch ? CHECK_API : CHECK_ENDPOINT;
	static struct check_result result;

	for (int i = 0; line->lists[i]; i++)
		for (const struct check *check = line->lists[i]; check->name && !sum->stuck;
		     check++) {
			if ((int)check->group != group || !check_wanted(line, check))
				continue;
			progress_show(&sum->progress, "check %d: %s", sum->total + 1, check->name);
			check_one(line, check, &sum->broken, &result);
			progress_clear(&sum->progress);
			check_print(++sum->total, check, &result);
			check_count(sum, group >= first, &result);
			if (result.verdict == CHECK_NOT_PASSED)
				check_note_broken(&sum->broken, check, &result);
		}
}

/* Finds the number of ranks: each rank of a plugin for devices gets a device of its own, unless the user set --ranks. */
static void check_look(struct check_options *o)
{
	const struct check_traits *traits = &o->traits;

	check_traits(o);
	if (!traits->device_only)
		return;
	printf("# it takes memory of CUDA devices only; ");
	if (!traits->devices) {
		check_print_text(traits->why);
	} else {
		printf("there %s %d", traits->devices == 1 ? "is" : "are", traits->devices);
		if (!o->ranks_said && o->ranks_max > traits->devices) {
			o->ranks_max = traits->devices;
			printf(", so no more ranks than that; --ranks lets processes share them");
		}
	}
	putchar('\n');
}

static int check_report(struct check_line *line)
{
	static struct check_sum sum;
	int64_t begin = tool_now_ms();

	printf("TAP version 13\n# %s\n", line->options.path);
	progress_begin(&sum.progress, PROGRESS_AFTER_MS);
	if (!line->options.observer)
		check_look(&line->options);
	for (int group = 0; group <= CHECK_API; group++)
		check_group(line, group, &sum);
	printf("1..%d\n", sum.total);
	check_advise(&sum.broken);
	if (sum.stuck)
		puts("# the report ends with the check that hangs: without a child (--no-fork) "
		     "nothing "
		     "can end it");
	printf("# %d checks in %d runs: %d passed, %d failed, %d skipped; %lld collectives "
	       "verified; %.1f s\n",
	       sum.total, sum.cases, sum.passed, sum.total - sum.passed - sum.skipped, sum.skipped,
	       sum.calls, (double)(tool_now_ms() - begin) / 1000);
	if (sum.broken.count)
		return CHECK_STATUS_FAILED;
	if (sum.passed && (!sum.opening || sum.opened))
		return 0;
	if (sum.opening && !sum.opened) {
		printf(line->options.observer
			       ? "# the observer was not tried, no state was opened: "
			       : "# the backend was not tried, no endpoint was opened: ");
		check_print_text(sum.why);
		putchar('\n');
	} else {
		printf("# the %s was not tried: every check was skipped\n",
		       line->options.observer ? "observer" : "backend");
	}
	return CHECK_STATUS_UNTRIED;
}

/* Runs the checks under a launcher.  Every process is a rank; all ranks run the checks, and rank 0 reports. */
static int check_launched(struct check_line *line)
{
	struct check_launch launch = {0};
	int status = check_launched_begin(&launch, line->options.timeout_ms);

	if (status)
		return status;
	line->options.launch = &launch;
	line->options.ranks_said = 1;
	if (launch.rank && !freopen("/dev/null", "w", stdout))
		fprintf(stderr, "coll check: cannot open /dev/null: %s\n", strerror(errno));
	status = check_report(line);
	check_launched_end(&launch);
	return status;
}

static void check_print_list(const struct check *const *lists)
{
	for (int group = 0; group <= CHECK_API; group++)
		for (int i = 0; lists[i]; i++)
			for (const struct check *check = lists[i]; check->name; check++)
				if ((int)check->group == group)
					printf("%-20s %s [%s]\n", check->name, check->says,
					       check->promise);
}

static int check_main(int argc, char **argv)
{
	static struct check_line line;
	int status = check_read_line(&line, argc, argv);

	if (status)
		return status;
	/* If the parent had SIGCHLD ignored, the kernel would discard exit statuses. */
	signal(SIGCHLD, SIG_DFL);
	if (line.help)
		fputs(check_help, stdout);
	else if (line.list)
		check_print_list(line.lists);
	else if (line.launched)
		status = check_launched(&line);
	else
		status = check_report(&line);
	free((void *)(uintptr_t)line.options.path);
	return status;
}

const struct tool_command tool_check = {
	.name = "check",
	.summary = "hold a plugin to the promises of backend.h or observer.h",
	.help = check_help,
	.main = check_main,
};
