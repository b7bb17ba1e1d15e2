/* SPDX-License-Identifier: BSD-3-Clause */
/* info.c - `coll info`: plugins, options, notes and the verdict, as text or JSON. */
#include <coll/coll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "info/info.h"
#include "lib/json.h"
#include "lib/tool.h"

static const char info_help[] =
	"Usage: coll info [OPTION]... [NAME]...\n"
	"Shows the decisions that a program with libcoll would take here and now: the\n"
	"backends found or refused and why, every option with its value and its source, and\n"
	"the chosen backend.  Needs no peer.\n"
	"\n"
	"  -a, --algorithms   show instead how the library composes collectives: the\n"
	"                     algorithms, and the rules that choose an algorithm\n"
	"  -n, --ranks N      with --algorithms: show which rules no call reaches on N ranks\n"
	"      --nodes N      with --ranks: the number of their nodes (default: any number)\n"
	"  -j, --json         print one JSON document\n"
	"  -o, --option NAME  print only this option, for example timeout or tcp.interface;\n"
	"                     may be repeated; further NAMEs are options too\n"
	"  -h, --help         show this help and exit\n"
	"\n"
	"Exit status: 0 if a communicator could be made (with --option: if the options\n"
	"exist; with --algorithms: if the configuration is valid), 1 if not, 2 if the command\n"
	"line is wrong.\n";

static const struct {
	uint32_t bit;
	const char *name;
} info_capabilities[] = {
	{COLL_CAP_TRANSPORT, "transport"},
	{COLL_CAP_NATIVE, "native"},
	{COLL_CAP_HOST_MEMORY, "host-memory"},
	{COLL_CAP_CUDA_MEMORY, "cuda-memory"},
	{COLL_CAP_STREAMS, "streams"},
	{COLL_CAP_IN_PROCESS, "in-process"},
	{COLL_CAP_COMPANION, "host-memory-by-companion"},
};

enum { INFO_CAPABILITIES = sizeof(info_capabilities) / sizeof(info_capabilities[0]) };

static const struct info_style info_plain = {"", "", "", ""};
static const struct info_style info_colour = {"\033[1m", "\033[32m", "\033[31m", "\033[0m"};

const struct info_style *info_choose_style(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	if ((no != NULL && no[0]) || term == NULL || strcmp(term, "dumb") == 0)
		return &info_plain;
	return isatty(STDOUT_FILENO) ? &info_colour : &info_plain;
}

void info_put(const char *text)
{
	for (; *text; text++)
		putchar((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text);
}

static void info_field(const char *name, const char *text)
{
	if (text == NULL || text[0] == '\0')
		return;
	printf("      %-12s ", name);
	info_put(text);
	putchar('\n');
}

static void info_print_backend(const coll_backend_info_t *b, const struct info_style *style)
{
	char text[256] = "";

	printf("  %c ", b->chosen ? '*' : ' ');
	printf("%s%s%s %s", style->bold, b->name[0] ? b->name : "(unknown)", style->end,
	       b->version[0] ? b->version : "");
	printf("%s%s%s%s\n", b->version[0] ? ": " : " ", b->usable ? style->good : style->bad,
	       b->usable ? "usable" : "not usable", style->end);
	info_field("why not", b->usable ? "" : b->reason);
	info_field("choice", b->choice);
	info_field("what", b->description);
	info_field("file", b->path);
	if (b->version[0] == '\0') /* refused unread */
		return;
	snprintf(text, sizeof(text), "%d, set by %s", b->priority, b->priority_source);
	info_field("priority", text);
	snprintf(text, sizeof(text), "%u.%u", b->abi_major, b->abi_minor);
	info_field("ABI", text);
	text[0] = '\0';
	for (size_t i = 0; i < INFO_CAPABILITIES; i++)
		if (b->capabilities & info_capabilities[i].bit)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
				 text[0] ? ", " : "", info_capabilities[i].name);
	info_field("can", text);
}

static int info_get_backend(coll_info_t info, int32_t i, coll_backend_info_t *out)
{
	memset(out, 0, sizeof(*out));
	out->size = sizeof(*out);
	return coll_info_backend(info, i, out);
}

static int info_get_option(coll_info_t info, int32_t i, coll_option_info_t *out)
{
	memset(out, 0, sizeof(*out));
	out->size = sizeof(*out);
	return coll_info_option(info, i, out);
}

static void info_print_option(const coll_option_info_t *o, const struct info_style *style)
{
	int by_default = strcmp(o->source, "default") == 0;
	size_t len = o->value != NULL ? strlen(o->value) : 0;

	printf("  %s%-24s%s ", by_default ? "" : style->bold, o->name,
	       by_default ? "" : style->end);
	info_put(len ? o->value : "(unset)");
	/* Values such as "300s" and "64K" already have a unit. */
	if (len && o->unit[0] && o->value[len - 1] >= '0' && o->value[len - 1] <= '9')
		printf(" %s", o->unit);
	if (!by_default) {
		printf("  (");
		info_put(o->source);
		putchar(')');
	}
	putchar('\n');
}

static void info_print(coll_info_t info)
{
	const struct info_style *style = info_choose_style();
	coll_backend_info_t b;
	coll_option_info_t o;
	const char *message;
	int code = coll_info_verdict(info, &message);

	printf("%slibcoll%s %s\n\n", style->bold, style->end, coll_version_string());
	printf("%sBackends%s\n", style->bold, style->end);
	if (coll_info_backend_count(info) == 0)
		printf("  none found\n");
	for (int32_t i = 0; i < coll_info_backend_count(info); i++)
		if (info_get_backend(info, i, &b) == COLL_SUCCESS)
			info_print_backend(&b, style);
	printf("\n%sOptions%s (in parentheses: the source of the value; else the default)\n",
	       style->bold, style->end);
	for (int32_t i = 0; i < coll_info_option_count(info); i++)
		if (info_get_option(info, i, &o) == COLL_SUCCESS)
			info_print_option(&o, style);
	if (coll_info_note_count(info) > 0)
		printf("\n%sNotes%s\n", style->bold, style->end);
	for (int32_t i = 0; i < coll_info_note_count(info); i++) {
		printf("  ");
		info_put(coll_info_note(info, i));
		putchar('\n');
	}
	printf("\n%sVerdict%s\n  %s", style->bold, style->end, code ? style->bad : style->good);
	info_put(message);
	printf("%s\n", style->end);
}

static void info_json_backend(struct json *json, const coll_backend_info_t *b)
{
	json_object(json, NULL);
	json_string(json, "name", b->name);
	json_string(json, "version", b->version);
	json_string(json, "description", b->description);
	json_string(json, "path", b->path);
	json_int(json, "priority", b->priority);
	json_string(json, "priority_source", b->priority_source);
	json_int(json, "abi_major", b->abi_major);
	json_int(json, "abi_minor", b->abi_minor);
	json_array(json, "capabilities");
	for (size_t i = 0; i < INFO_CAPABILITIES; i++)
		if (b->capabilities & info_capabilities[i].bit)
			json_string(json, NULL, info_capabilities[i].name);
	json_array_end(json);
	json_bool(json, "usable", b->usable);
	json_int(json, "code", b->code);
	json_string(json, "reason", b->reason);
	json_bool(json, "chosen", b->chosen);
	json_string(json, "choice", b->choice);
	json_object_end(json);
}

static void info_json_option(struct json *json, const coll_option_info_t *o)
{
	json_object(json, NULL);
	json_string(json, "name", o->name);
	json_string(json, "value", o->value);
	json_string(json, "default", o->fallback);
	json_string(json, "unit", o->unit);
	json_string(json, "source", o->source);
	json_string(json, "help", o->help);
	json_object_end(json);
}

static void info_json(coll_info_t info)
{
	struct json json = {.out = stdout};
	coll_backend_info_t b;
	coll_option_info_t o;
	const char *message;
	int code = coll_info_verdict(info, &message);

	json_object(&json, NULL);
	json_string(&json, "version", coll_version_string());
	json_array(&json, "backends");
	for (int32_t i = 0; i < coll_info_backend_count(info); i++)
		if (info_get_backend(info, i, &b) == COLL_SUCCESS)
			info_json_backend(&json, &b);
	json_array_end(&json);
	json_array(&json, "options");
	for (int32_t i = 0; i < coll_info_option_count(info); i++)
		if (info_get_option(info, i, &o) == COLL_SUCCESS)
			info_json_option(&json, &o);
	json_array_end(&json);
	json_array(&json, "notes");
	for (int32_t i = 0; i < coll_info_note_count(info); i++)
		json_string(&json, NULL, coll_info_note(info, i));
	json_array_end(&json);
	json_object(&json, "verdict");
	json_bool(&json, "ok", code == COLL_SUCCESS);
	json_int(&json, "code", code);
	json_string(&json, "sentence", message);
	json_object_end(&json);
	json_object_end(&json);
}

static int info_find_option(coll_info_t info, const char *name, coll_option_info_t *out)
{
	for (int32_t i = 0; i < coll_info_option_count(info); i++)
		if (info_get_option(info, i, out) == COLL_SUCCESS && strcmp(out->name, name) == 0)
			return 0;
	return -1;
}

static int info_no_option(coll_info_t info, const char *name)
{
	int32_t n = coll_info_option_count(info);
	const char **names = calloc((size_t)n + 1, sizeof(*names));
	coll_option_info_t o;

	fprintf(stderr, "coll info: no option is called '%s'", name);
	for (int32_t i = 0; names != NULL && i < n; i++)
		names[i] = info_get_option(info, i, &o) == COLL_SUCCESS ? o.name : "";
	fprintf(stderr, "%s\n", names != NULL ? tool_did_you_mean(name, names) : "");
	free(names);
	return 1;
}

/* names: the options that the user asked for, ended by NULL. */
static int info_some_options(coll_info_t info, char **names, int as_json)
{
	struct json json = {.out = stdout};
	coll_option_info_t o;

	for (char **name = names; *name != NULL; name++)
		if (info_find_option(info, *name, &o))
			return info_no_option(info, *name);
	if (as_json)
		json_array(&json, NULL);
	for (char **name = names; *name != NULL; name++) {
		info_find_option(info, *name, &o);
		if (as_json)
			info_json_option(&json, &o);
		else
			info_print_option(&o, info_choose_style());
	}
	if (as_json)
		json_array_end(&json);
	return 0;
}

/* The request of the command line. */
struct info_request {
	char **names; /* names of options, ended by NULL */
	int count;
	int json, algorithms;
	int64_t nranks, nnodes; /* 0: not given */
};

static int info_show(const struct info_request *request)
{
	coll_info_t info;
	const char *message;
	int status;

	tool_probe_apart();
	if (coll_info_create(NULL, &info) != COLL_SUCCESS) {
		fprintf(stderr, "coll info: %s\n", coll_get_last_error(NULL));
		return 1;
	}
	status = coll_info_verdict(info, &message) == COLL_SUCCESS ? 0 : 1;
	if (request->algorithms)
		status = info_algorithms(info, (int32_t)request->nranks, (int32_t)request->nnodes,
					 request->json);
	else if (request->names[0] != NULL)
		status = info_some_options(info, request->names, request->json);
	else if (request->json)
		info_json(info);
	else
		info_print(info);
	coll_info_destroy(info);
	return status;
}

/* Reads one option of the command line.  Returns 0, or the exit status. */
static int info_take(struct info_request *request, int c, char **argv, const struct option *known)
{
	switch (c) {
	case 'a': request->algorithms = 1; return 0;
	case 'j': request->json = 1; return 0;
	case 'o': request->names[request->count++] = optarg; return 0;
	case 'n':
		if (tool_parse_int(optarg, 1, INT32_MAX, &request->nranks))
			return tool_usage("info", "--ranks takes a number from 1 on, not '%s'",
					  optarg);
		return 0;
	case 'N':
		if (tool_parse_int(optarg, 1, INT32_MAX, &request->nnodes))
			return tool_usage("info", "--nodes takes a number from 1 on, not '%s'",
					  optarg);
		return 0;
	default: return tool_bad_option("info", c, argv, known);
	}
}

/* Rejects options that exclude each other.  Returns 0, or the exit status. */
static int info_check(const struct info_request *request, char **words)
{
	if (request->algorithms && (request->count > 0 || words[0] != NULL))
		return tool_usage("info", "--algorithms shows no options");
	if (!request->algorithms && (request->nranks || request->nnodes))
		return tool_usage("info", "--ranks and --nodes belong to --algorithms");
	if (request->nnodes && !request->nranks)
		return tool_usage("info", "--nodes needs --ranks");
	if (request->nnodes > request->nranks)
		return tool_usage("info", "more nodes than ranks: each node needs a rank");
	if (request->count == 0 && words[0] != NULL)
		return tool_usage("info",
				  "unexpected argument '%s'; to show one option: --option %s",
				  words[0], words[0]);
	return 0;
}

static int info_main(int argc, char **argv)
{
	static const struct option known[] = {{"help", no_argument, NULL, 'h'},
					      {"algorithms", no_argument, NULL, 'a'},
					      {"json", no_argument, NULL, 'j'},
					      {"nodes", required_argument, NULL, 'N'},
					      {"option", required_argument, NULL, 'o'},
					      {"ranks", required_argument, NULL, 'n'},
					      {NULL, 0, NULL, 0}};
	struct info_request request = {.names = calloc((size_t)argc + 1, sizeof(char *))};
	int c, status = 0;

	if (request.names == NULL)
		return 1;
	while (status == 0 && (c = getopt_long(argc, argv, ":ahjn:o:", known, NULL)) != -1) {
		if (c == 'h') {
			fputs(info_help, stdout);
			free(request.names);
			return 0;
		}
		status = info_take(&request, c, argv, known);
	}
	if (status == 0)
		status = info_check(&request, argv + optind);
	while (optind < argc)
		request.names[request.count++] = argv[optind++];
	if (status == 0)
		status = info_show(&request);
	free(request.names);
	return status;
}

const struct tool_command tool_info = {
	.name = "info",
	.summary = "show the backends, the options and the choice",
	.help = info_help,
	.main = info_main,
};
