/* SPDX-License-Identifier: BSD-3-Clause */
/* config_impl.h - what the parts of the configuration share; seen by core/config only. */
#ifndef CORE_CONFIG_CONFIG_IMPL_H
#define CORE_CONFIG_CONFIG_IMPL_H

#include "config/config.h"

enum { RAW_FILE, RAW_ENV, RAW_APP };

/* A value as somebody wrote it. */
struct config_raw {
	int kind;
	int origin;    /* the how-many-th file; RAW_APP: the same for all */
	char *section; /* "": the core's; RAW_ENV: "", since it is part of the variable's name */
	char *key;     /* RAW_ENV: the variable's name */
	char *value;   /* without blanks around it, not empty */
	char *source;  /* as config_source shows it */
	int claimed;   /* an option or a priority was declared for it */
	char *remark;  /* while it is not claimed: the note that says so, or NULL */
};

/* An option as it is declared; a backend's has `spec` only. */
struct config_declared {
	coll_option_t spec;
	const char *choices; /* STRING: the allowed words, separated by '|', or NULL */
	int rules;           /* STRING: rules (rules.h) for this COLL_KIND_*, or 0 */
};

/* A declared option and its value in force. */
struct config_option {
	char *name; /* "timeout", "tcp.interface" */
	struct config_declared declared;
	const char *value;  /* in force: spec.fallback, or of a raw value */
	const char *source; /* NULL: the default */
	int64_t number;     /* value as a number; of a choice: its index */
};

struct config {
	struct config_raw *raw; /* in rising precedence */
	int nraw;
	struct config_option *option;
	int noption;
	char **section; /* declared ones */
	int nsection;
	char **note;
	int nnote;
	int origins;    /* files read */
	int fault;      /* first note that is a fault since the last config_verdict, or -1 */
	int fault_code; /* its result code */
	int oom;        /* memory ran out: what is here is not complete */
};

/* ---- config.c */

/* Formatted text on the heap; NULL sets config->oom. */
char *config_text(struct config *config, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* `array` with room for one more than `count` items, or NULL (the old one stays valid). */
void *config_more(struct config *config, void *array, int count, size_t item);
void config_add_note(struct config *config, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* A note that makes config_load or config_declare fail. */
void config_add_fault(struct config *config, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * Appends a value above all that are there.  Takes `source` over; blanks around value go, and a
 * value that is then empty says nothing.  Section "" with key "tcp.interface" is section "tcp".
 */
void config_add_raw(struct config *config, int kind, const char *section, const char *key,
		    const char *value, char *source);
/* Is it a value for that option? */
int config_raw_is(const struct config_raw *raw, const char *section, const char *key);
/* Where a wrong value was given, for the beginning of a message. */
struct config_place {
	char text[512];
};
struct config_place config_place(const struct config_raw *raw);
extern const coll_option_t config_priority_option;
/* The declared option of that full name, or NULL. */
struct config_option *config_find(const struct config *config, const char *name);
/* Is the section declared? */
int config_has_section(const struct config *config, const char *section);

/* ---- sources.c */

/* Reads all sources in rising precedence. */
void config_collect(struct config *config, const coll_config_t *app);
/* Variables that begin with COLL_ and are not options. */
extern const char *const config_reserved[];

/* ---- file.c */

/*
 * Reads one file.  needed: that it does not exist is a fault, else a note.  A file that exists and
 * cannot be read always is.
 */
void config_read_file(struct config *config, const char *path, int needed);

/* ---- parse.c */

/* 0 and *number, or -1 if value is not of the option's type or out of its range. */
int config_parse(const coll_option_t *spec, const char *choices, const char *value,
		 int64_t *number);
/* The same for rules of a kind of collective; text becomes what is wrong, with a guess. */
int config_check_rules(int kind, const char *value, char *text, size_t size);
/* "expected a size such as ..., from 4K to 1G" */
void config_expected(const coll_option_t *spec, const char *choices, char *text, size_t size);
/* COLL_<SECTION>_<KEY>; section "": COLL_<KEY>. */
void config_variable(const char *section, const char *key, char *text, size_t size);

/* A value for use in messages: on one line and not too long. */
struct config_shown {
	char text[100];
};
struct config_shown config_show(const char *value);

/* ---- suggest.c */

enum { GUESS_WORD_SIZE = 80 };

/* The candidate most similar to a word that nobody knows. */
struct config_guess {
	const char *word;
	char best[GUESS_WORD_SIZE]; /* "": none is similar enough */
	int distance;
};
/* The first `same` bytes of word are common to all candidates. */
void config_guess_begin(struct config_guess *guess, const char *word, size_t same);
void config_guess_try(struct config_guess *guess, const char *candidate);

/* Says of every value that nobody has claimed so far why that may be. */
void config_review(struct config *config);
/* A fault for each value that is meant for this section and has no option there. */
void config_find_unknown(struct config *config, const char *section);

/* ---- declare.c */

extern const struct config_declared config_core_options[];
extern const int config_core_count;

#endif
