/* SPDX-License-Identifier: BSD-3-Clause */
/* config_impl.h - shared by the files of core/config. */
#ifndef CORE_CONFIG_CONFIG_IMPL_H
#define CORE_CONFIG_CONFIG_IMPL_H

#include "config/config.h"

#include <stdio.h>

/* Files have numbers from SOURCE_FILE on. */
enum { SOURCE_ENVIRONMENT, SOURCE_APPLICATION, SOURCE_FILE };

/* A value with its source, as it was written. */
struct config_value {
	int source;
	char *name; /* "timeout", "tcp.interface"; for SOURCE_ENVIRONMENT the name of the variable */
	char *text;  /* not empty, no blanks around it */
	char *place; /* "/etc/coll.conf:12", "COLL_TIMEOUT", "application" */
	int used;    /* the value belongs to a declared option, or its fault was reported */
};

/* A declared option and its value in force. */
struct config_option {
	char *name;         /* "timeout", "tcp.interface" */
	char *variable;     /* "COLL_TIMEOUT", "COLL_TCP_INTERFACE" */
	coll_option_t spec; /* as its owner declares it */
	int is_priority;    /* not a real option: it marks a declared or accepted section */
	int unread;         /* no given value is in force yet: see config_accept */
	const char *value;  /* the value in force: spec.fallback, or the text of a given value */
	const char *source; /* "default", or the place of the given value */
	int64_t number;     /* value as a number; of one of several words: its index */
};

/* The codes of diagnostics that are no faults. */
enum {
	CONFIG_NOTE = 0,
	CONFIG_UNUSED = -1, /* a variable or a section that belongs to no declared option yet */
	CONFIG_UNUSED_OWN =
		-2 /* a section of the library's own backend that is not here: no warning */
};

struct config_diagnostic {
	int code;     /* a fault's result code, else CONFIG_* */
	int returned; /* config_load or config_declare has returned it or passed over it */
	char *text;   /* place first: "/etc/coll.conf:12: ..." */
};

struct config {
	config_check check;         /* another folder's check of the core's options, or NULL */
	struct config_value *value; /* the values, in rising precedence */
	int nvalues;
	struct config_option *option;
	int noptions;
	struct config_diagnostic *diagnostic;
	int ndiagnostics;
	int complete; /* every backend has declared its options, or its section is accepted */
	int nfiles;
	char *too_many; /* a file has too many options: reported after the faults of the options */
	int oom;        /* memory ran out: the lists are not complete */
	struct log_place log; /* see config_open_log */
	int log_names_told;   /* the fault of a name in the option `log` is reported */
};

/* ---- config.c */

/* Declares the core's options, after all values were collected. */
void config_declare_core(struct config *config);

/* ---- log_options.c */

/* Checks the value of an option of the log, and passes every other key: see config_check. */
int config_check_log(const char *key, const char *value, char *why, size_t size);
/* Puts the levels and the format in force. */
void config_apply_log(const struct config *config);

/* ---- store.c */

/* The source of an option whose default is in force. */
extern const char config_unset[];
/* Returns `array` grown for one more than `count` items, or NULL; then the old array stays valid. */
void *config_grow(struct config *config, void *array, int count, size_t item);
/* Returns formatted text on the heap.  If memory runs out, returns NULL and sets config->oom. */
char *config_text(struct config *config, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Appends a diagnostic; a fault makes config_load or config_declare fail. */
void config_report(struct config *config, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * Appends a value with a higher precedence than all earlier values.  Takes name and place over.  Removes blanks around
 * the text; an empty text is the same as no value.
 */
void config_add_value(struct config *config, int source, char *name, const char *text, char *place);
/* Makes the first fault that was not returned yet this thread's error. */
int config_status(struct config *config);
/* The declared option of that full name, or NULL. */
struct config_option *config_find(const struct config *config, const char *name);

/* ---- sources.c */

/* Reads all sources in rising precedence. */
void config_collect(struct config *config, const coll_config_t *app);
/* The names of variables that begin with COLL_ but are no options. */
extern const char *const config_reserved[];

/* ---- file.c */

/*
 * Reads one file.  A needed file that does not exist is a fault, any other a note.  A file that
 * exists and cannot be read is always a fault.
 */
void config_read_file(struct config *config, const char *path, int needed);
/* Reads the bytes of a file.  Returns why they cannot be read to their end, or NULL. */
const char *config_read_stream(struct config *config, const char *path, FILE *stream);

/* ---- parse.c */

/* Returns 0 and *number, or -1 and in `why` "expected a size such as ..., from 4K to 1G". */
int config_parse(const coll_option_t *spec, const char *value, int64_t *number, char *why,
		 size_t size);
/* The words "a|b|c" that an option takes, or NULL. */
const char *config_words(const coll_option_t *spec);

/* A value for use in messages: on one line and not too long. */
struct config_shown {
	char text[100];
};
struct config_shown config_show(const char *value);
/* The place of a value, for the beginning of a message. */
struct config_place {
	char text[512];
};
struct config_place config_place(const struct config_value *value);

/* ---- unused.c */

/* Reports a fault for each value of the declared section that belongs to no option. */
void config_report_unknown(struct config *config, const char *section);
/* Replaces the diagnostics about values that belong to no declared option. */
void config_report_unused(struct config *config);

/* ---- security.c */

/* Reports a fault if COLL_SECURITY is set: its user wants protection, but no option has that name. */
void config_check_security(struct config *config);

/* ---- declare.c */

extern const coll_option_t config_core_options[];
extern const int config_core_count;

#endif
