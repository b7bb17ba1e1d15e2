/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin_impl.h - shared by the files of core/plugin. */
#ifndef CORE_PLUGIN_PLUGIN_IMPL_H
#define CORE_PLUGIN_PLUGIN_IMPL_H

#include "base/trust.h"
#include "plugin/plugin.h"

/* A list of plugins that plugins_load makes or plugins_open completes. */
struct plugin_search {
	struct config *config;
	struct plugin_list *list;
	int how; /* PLUGINS_* */
	int no_memory;
};

/* A kind of plugins, backends or observers, with the words for the refusal of a plugin. */
struct plugin_kind {
	const char *noun;      /* "backend" */
	const char *file_noun; /* "a plugin" */
	const char *prefix;    /* of the file's name */
	const char *symbol;
	const char *header, *export_macro, *type;
	int major;
	/* Copies the exported table into the core's own structs and checks it. */
	int (*take)(struct plugin *plugin, const void *table);
};
extern const struct plugin_kind plugin_backends, plugin_observers;

/* ---- list.c */

/* Appends a note for coll_info. */
void plugin_note(struct plugin_search *search, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Marks the plugin as refused; returns code. */
int plugin_refuse(struct plugin *plugin, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Marks the plugin as refused with error_text() as the message. */
int plugin_refuse_error(struct plugin *plugin, int code);

/* ---- find.c */

/* Searches all directories: appends an item for each candidate file, and notes about the directories. */
void plugin_find_all(struct plugin_search *search);

/* Appends a zeroed item to the list of the kind, which does not count it yet.  Returns NULL: memory has run out. */
struct plugin *plugin_new_item(struct plugin_search *search, const struct plugin_kind *kind);

/* ---- load.c */

enum { PLUGIN_NAME_LONGEST = 31 };

/* Is the name of the form [a-z][a-z0-9_]*, with at most PLUGIN_NAME_LONGEST bytes? */
int plugin_name_ok(const char *name);
/*
 * Copies the exported table of a backend into the core's own structs and checks it.  plugin->name is the name in the
 * file's name.
 */
int plugin_take(struct plugin *plugin, const void *table);
/* Copies min(size, own size) bytes of a size-first struct; the rest of the copy stays 0. */
int plugin_copy(struct plugin *plugin, const char *type, void *copy, uint64_t own, const void *from,
		uint64_t size, uint64_t least);
/* Refuses a plugin that leaves a mandatory member empty. */
int plugin_missing(struct plugin *plugin, const char *member);
/* Checks the name in the table. */
int plugin_check_name(struct plugin *plugin, const char *name);
/*
 * Checks the options of a table and copies them into plugin->options, an array of the core's own struct size.  Then
 * *options, a member of the table, points to the copy, and *size is the size of the core's struct; a table without options keeps
 * both members.
 */
int plugin_take_options(struct plugin *plugin, const coll_option_t **options, uint32_t count,
			uint32_t *size);

/* Refuses a plugin whose file another user can change: nobody may run such code.  *trust: what trust_check found. */
int plugin_check_safe(struct plugin_search *search, struct plugin *plugin, struct trust *trust);
/* Opens the file, which plugin_check_safe has judged, and takes the table over; or refuses the plugin. */
void plugin_open(struct plugin *plugin, const struct trust *trust);

/* ---- observer.c */

/* Opens the observers that the option `observers` names. */
void plugin_open_observers(struct plugin_search *search);
/* Declares the options of the open observers, and accepts the sections of the others.  Returns the first error. */
int plugin_declare_observers(struct plugin_list *list, struct config *config);

/* ---- plugin.c */

/* Judges the file, and opens it in this process, or in a child process where search->how asks for children. */
void plugin_load(struct plugin_search *search, struct plugin *plugin);

/* ---- probe.c */

/* Calls the probe of the plugin; the result goes to code and reason. */
void plugin_probe(struct plugin *plugin, const struct config *config);
/* Calls the plugin's `info` for the line that describes it. */
void plugin_ask_info(struct plugin *plugin, const struct config *config);

/* ---- survey.c */

/* Does plugin_open, plugin_probe and plugin_ask_info in a child process. */
void plugin_survey(struct plugin *plugin, const struct trust *trust, struct config *config);
/* Frees the memory of a survey's answer. */
void plugin_forget_survey(struct plugin *plugin);

/* ---- select_filter.c: the request in the option `backend` */

struct filter {
	const char *list;  /* the value of the option, or NULL */
	int takes;         /* number of names to take, in this order; all others are ruled out */
	int leaves_out;    /* number of names to leave out */
	char request[256]; /* as the user wrote it: "COLL_BACKEND=tcp,ucx" */
};

/* An unset option gives no names, nor does a malformed list, which is COLL_ERR_CONFIG. */
int filter_parse(const struct config *config, struct filter *filter);
/* Is the name in the list? */
int filter_has(const char *list, const char *name);

/* An entry of a list, without the blanks around it; it may be empty. */
struct filter_name {
	char text[64]; /* a name of more bytes, which no backend has, is cut */
	int excluded;  /* there is a '^' before the name */
};
/* Takes the next entry of the list at *at.  Returns 0 if there is none. */
int filter_next(const char **at, struct filter_name *name);

/* Does the option `backend` allow a backend of that name? */
enum plugin_wanted {
	PLUGIN_EXCLUDED = -1, /* the option excludes the name */
	PLUGIN_RULED_OUT = 0, /* the option lists other names, or is malformed */
	PLUGIN_BY_PRIORITY = 1,
	PLUGIN_BY_NAME = 2
};
enum plugin_wanted filter_wants(const struct config *config, const char *name);

/* ---- select_security.c */

/* Sets plugin->unsafe.  one_host: all ranks run on one host, whose connections count as safe. */
void plugin_secure(struct plugin *plugin, const struct config *config, int one_host);

#endif
