/* SPDX-License-Identifier: BSD-3-Clause */
/* info.c - `coll info`: plugins, options, notes and the verdict, as text or JSON. */
#include <coll/coll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "info/info.h"
#include "lib/interfaces.h"
#include "lib/json.h"
#include "lib/tool.h"

static const char info_help[] =
	"Usage: coll info [OPTION]... [NAME]...\n"
	"Shows the decisions that a program with libcoll would take here and now: the\n"
	"backends found or refused and why, every option with its value, its source and its\n"
	"meaning, the network interfaces, and the chosen backend.  Needs no peer.  A NAME is\n"
	"an option (timeout, tcp.interface) or a backend (tcp): shows only that.\n"
	"\n"
	"  -a, --algorithms   show instead how the library composes collectives: the\n"
	"                     algorithms, and the rules that choose an algorithm\n"
	"  -n, --ranks N      with --algorithms: show which rules no call reaches on N ranks\n"
	"      --nodes N      with --ranks: the number of their nodes (default: any number)\n"
	"  -j, --json         print one JSON document\n"
	"  -o, --option NAME  the same as NAME; may be repeated\n"
	"  -h, --help         show this help and exit\n"
	"\n"
	"Exit status: 0 if a communicator could be made (with NAME: if the NAMEs exist;\n"
	"with --algorithms: if the configuration is valid), 1 if not, 2 if the command\n"
	"line is wrong.\n";

static const struct {
	uint32_t bit;
	const char *name, *meaning;
} info_capabilities[] = {
	{COLL_CAP_TRANSPORT, "transport",
	 "moves messages, of which the library composes the collectives"},
	{COLL_CAP_NATIVE, "native", "has collectives of its own"},
	{COLL_CAP_HOST_MEMORY, "host-memory", "takes buffers in host memory"},
	{COLL_CAP_CUDA_MEMORY, "cuda-memory", "takes buffers in memory of CUDA devices"},
	{COLL_CAP_STREAMS, "streams", "orders calls with streams on the device"},
	{COLL_CAP_IN_PROCESS, "in-process", "serves only ranks that all live in one process"},
	{COLL_CAP_COMPANION, "host-memory-by-companion",
	 "leaves buffers in host memory to the transport of option companion"},
	{COLL_CAP_NATIVE_SPLIT, "native-split",
	 "its own collectives serve split and duplicated communicators too"},
};

enum { INFO_CAPABILITIES = sizeof(info_capabilities) / sizeof(info_capabilities[0]) };

/* The columns of the name of a backend's property, and of an option's name. */
enum { INFO_FIELD = 12, INFO_OPTION = 24 };

static void info_field(const char *name, const char *text)
{
	if (text == NULL || text[0] == '\0')
		return;
	printf("      %-*s ", INFO_FIELD, name);
	info_put_sentence(text, 6 + INFO_FIELD + 1);
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

static int info_get_observer(coll_info_t info, int32_t i, coll_observer_info_t *out)
{
	memset(out, 0, sizeof(*out));
	out->size = sizeof(*out);
	return coll_info_observer(info, i, out);
}

static int info_get_option(coll_info_t info, int32_t i, coll_option_info_t *out)
{
	memset(out, 0, sizeof(*out));
	out->size = sizeof(*out);
	return coll_info_option(info, i, out);
}

/* Explains the words of a backend's properties.  bits: the capabilities that were shown. */
static void info_print_legend(uint32_t bits)
{
	static const char priority[] =
		"the highest wins; it holds for ranks on several hosts.  For ranks that all run on "
		"one host, or live in one process, a plugin may have a higher one: if that "
		"decides, "
		"the backend's choice and the verdict name it.  A priority that you set holds "
		"everywhere";

	printf("  %-*s ", INFO_OPTION, "priority");
	info_put_value(priority, 2 + INFO_OPTION + 1);
	putchar('\n');
	for (size_t i = 0; i < INFO_CAPABILITIES; i++)
		if (bits & info_capabilities[i].bit) {
			printf("  can %-*s ", INFO_OPTION - 4, info_capabilities[i].name);
			info_put_value(info_capabilities[i].meaning, 2 + INFO_OPTION + 1);
			putchar('\n');
		}
}

static void info_print_option(const coll_option_info_t *o, const struct info_style *style)
{
	int by_default = strcmp(o->source, "default") == 0;
	size_t len = o->value != NULL ? strlen(o->value) : 0;

	printf("  %s%-*s%s ", by_default ? "" : style->bold, INFO_OPTION, o->name,
	       by_default ? "" : style->end);
	info_put_value(len ? o->value : "(unset)", 2 + INFO_OPTION + 1);
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

static void info_print_help(const char *help)
{
	printf("%*s", INFO_OPTION + 5, "");
	info_put_value(help, INFO_OPTION + 5);
	putchar('\n');
}

/* Prints all options.  Neighbours with the same meaning, as the rules of the collectives are, have it once. */
static void info_print_options(coll_info_t info, const struct info_style *style)
{
	const int32_t n = coll_info_option_count(info);
	coll_option_info_t o, next;

	for (int32_t i = 0; i < n; i++) {
		if (info_get_option(info, i, &o) != COLL_SUCCESS)
			continue;
		info_print_option(&o, style);
		if (i + 1 == n || info_get_option(info, i + 1, &next) != COLL_SUCCESS ||
		    strcmp(o.help, next.help) != 0)
			info_print_help(o.help);
	}
}

static void info_print_interface(const struct interface *at)
{
	printf("  %-*s %s", INFO_OPTION, at->name, at->up ? "up" : "down");
	if (at->loopback)
		printf(", this host only");
	if (at->mtu)
		printf(", packets of %d bytes", at->mtu);
	if (at->mbits)
		printf(", %d Mb/s", at->mbits);
	for (int i = 0; i < at->addresses; i++)
		printf(", %s", at->address[i]);
	putchar('\n');
}

static void info_print_interfaces(const struct info_style *style)
{
	struct interface *list;
	int n = interfaces_list(&list);

	printf("\n%sInterfaces%s (the option interface names one)\n", style->bold, style->end);
	if (n <= 0)
		printf("  none found\n");
	for (int i = 0; i < n; i++)
		info_print_interface(&list[i]);
	free(list);
}

static void info_print_observer(const coll_observer_info_t *o, const struct info_style *style)
{
	char text[32];

	printf("  %c ", o->named ? '*' : ' ');
	printf("%s%s%s%s%s%s", style->bold, o->name[0] ? o->name : "(unknown)", style->end,
	       o->version[0] ? " " : "", o->version, o->named ? ": named" : "");
	printf("%s%s%s\n", o->code ? style->bad : "", o->code ? " not usable" : "",
	       o->code ? style->end : "");
	info_field("why not", o->reason);
	info_field("what", o->description);
	info_field("file", o->path);
	if (!o->abi_major)
		return;
	snprintf(text, sizeof(text), "%u.%u", o->abi_major, o->abi_minor);
	info_field("ABI", text);
}

/* Most programs have no observers, and no line about them. */
static void info_print_observers(coll_info_t info, const struct info_style *style)
{
	coll_observer_info_t o;

	if (coll_info_observer_count(info) == 0)
		return;
	printf("\n%sObservers%s (the option observers names those that are used)\n", style->bold,
	       style->end);
	for (int32_t i = 0; i < coll_info_observer_count(info); i++)
		if (info_get_observer(info, i, &o) == COLL_SUCCESS)
			info_print_observer(&o, style);
}

static void info_print(coll_info_t info)
{
	const struct info_style *style = info_choose_style();
	coll_backend_info_t b;
	const char *message;
	int code = coll_info_verdict(info, &message);
	uint32_t bits = 0;

	printf("%slibcoll%s %s\n\n", style->bold, style->end, coll_version_string());
	printf("%sBackends%s\n", style->bold, style->end);
	if (coll_info_backend_count(info) == 0)
		printf("  none found\n");
	for (int32_t i = 0; i < coll_info_backend_count(info); i++)
		if (info_get_backend(info, i, &b) == COLL_SUCCESS) {
			info_print_backend(&b, style);
			bits |= b.capabilities;
		}
	if (coll_info_backend_count(info) > 0) {
		printf("\n%sWhat these words say%s\n", style->bold, style->end);
		info_print_legend(bits);
	}
	info_print_observers(info, style);
	printf("\n%sOptions%s (in parentheses: the source of the value; else the default)\n",
	       style->bold, style->end);
	info_print_options(info, style);
	info_print_interfaces(style);
	if (coll_info_note_count(info) > 0)
		printf("\n%sNotes%s\n", style->bold, style->end);
	for (int32_t i = 0; i < coll_info_note_count(info); i++) {
		printf("  ");
		info_put_sentence(coll_info_note(info, i), 4);
		putchar('\n');
	}
	printf("\n%sVerdict%s\n  %s", style->bold, style->end, code ? style->bad : style->good);
	info_put_sentence(message, 4);
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

static void info_json_observer(struct json *json, const coll_observer_info_t *o)
{
	json_object(json, NULL);
	json_string(json, "name", o->name);
	json_string(json, "version", o->version);
	json_string(json, "description", o->description);
	json_string(json, "path", o->path);
	json_int(json, "abi_major", o->abi_major);
	json_int(json, "abi_minor", o->abi_minor);
	json_int(json, "wants", o->wants);
	json_bool(json, "named", o->named);
	json_bool(json, "usable", o->code == COLL_SUCCESS);
	json_int(json, "code", o->code);
	json_string(json, "reason", o->reason);
	json_object_end(json);
}

static void info_json_observers(struct json *json, coll_info_t info)
{
	coll_observer_info_t o;

	json_array(json, "observers");
	for (int32_t i = 0; i < coll_info_observer_count(info); i++)
		if (info_get_observer(info, i, &o) == COLL_SUCCESS)
			info_json_observer(json, &o);
	json_array_end(json);
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

static void info_json_interfaces(struct json *json)
{
	struct interface *list;
	int n = interfaces_list(&list);

	json_array(json, "interfaces");
	for (int i = 0; i < n; i++) {
		json_object(json, NULL);
		json_string(json, "name", list[i].name);
		json_bool(json, "up", list[i].up);
		json_bool(json, "loopback", list[i].loopback);
		json_int(json, "mtu", list[i].mtu);
		json_int(json, "megabits", list[i].mbits);
		json_array(json, "addresses");
		for (int a = 0; a < list[i].addresses; a++)
			json_string(json, NULL, list[i].address[a]);
		json_array_end(json);
		json_object_end(json);
	}
	json_array_end(json);
	free(list);
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
	info_json_interfaces(&json);
	info_json_observers(&json, info);
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

static int info_find_backend(coll_info_t info, const char *name, coll_backend_info_t *out)
{
	for (int32_t i = 0; i < coll_info_backend_count(info); i++)
		if (info_get_backend(info, i, out) == COLL_SUCCESS && strcmp(out->name, name) == 0)
			return 0;
	return -1;
}

static int info_no_name(coll_info_t info, const char *name)
{
	int32_t options = coll_info_option_count(info), backends = coll_info_backend_count(info);
	const char **names = calloc((size_t)options + (size_t)backends + 1, sizeof(*names));
	coll_option_info_t o;
	coll_backend_info_t b;
	size_t n = 0;

	fprintf(stderr, "coll info: no option and no backend is called '%s'", name);
	for (int32_t i = 0; names != NULL && i < options; i++)
		if (info_get_option(info, i, &o) == COLL_SUCCESS)
			names[n++] = o.name;
	for (int32_t i = 0; names != NULL && i < backends; i++)
		if (info_get_backend(info, i, &b) == COLL_SUCCESS)
			names[n++] = b.name;
	fprintf(stderr, "%s\n", names != NULL ? tool_did_you_mean(name, names) : "");
	free(names);
	return 1;
}

/* Shows a backend, and the options of its plugin. */
static void info_one_backend(coll_info_t info, const coll_backend_info_t *b, struct json *json)
{
	const struct info_style *style = info_choose_style();
	coll_option_info_t o;
	size_t n = strlen(b->name);

	if (json != NULL) {
		info_json_backend(json, b);
		return;
	}
	info_print_backend(b, style);
	for (int32_t i = 0; i < coll_info_option_count(info); i++)
		if (info_get_option(info, i, &o) == COLL_SUCCESS &&
		    strncmp(o.name, b->name, n) == 0 && o.name[n] == '.') {
			info_print_option(&o, style);
			info_print_help(o.help);
		}
}

/* names: the options and backends that the user asked for, ended by NULL. */
static int info_some(coll_info_t info, char **names, int as_json)
{
	struct json json = {.out = stdout};
	coll_option_info_t o;
	coll_backend_info_t b;

	for (char **name = names; *name != NULL; name++)
		if (info_find_option(info, *name, &o) && info_find_backend(info, *name, &b))
			return info_no_name(info, *name);
	if (as_json)
		json_array(&json, NULL);
	for (char **name = names; *name != NULL; name++) {
		if (info_find_option(info, *name, &o)) {
			info_find_backend(info, *name, &b);
			info_one_backend(info, &b, as_json ? &json : NULL);
		} else if (as_json) {
			info_json_option(&json, &o);
		} else {
			info_print_option(&o, info_choose_style());
			info_print_help(o.help);
		}
	}
	if (as_json)
		json_array_end(&json);
	return 0;
}

/* The request of the command line. */
struct info_request {
	char **names; /* names of options and backends, ended by NULL */
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
		status = info_some(info, request->names, request->json);
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
		return tool_usage("info", "--algorithms takes no NAME");
	if (!request->algorithms && (request->nranks || request->nnodes))
		return tool_usage("info", "--ranks and --nodes belong to --algorithms");
	if (request->nnodes && !request->nranks)
		return tool_usage("info", "--nodes needs --ranks");
	if (request->nnodes > request->nranks)
		return tool_usage("info", "more nodes than ranks: each node needs a rank");
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
