/* SPDX-License-Identifier: BSD-3-Clause */
/* source.h - where the commands look: at the pages of this host, or by `--job HOST:PORT` at the hosts of a job that serve them. */
#ifndef TOOLS_TOP_SOURCE_H
#define TOOLS_TOP_SOURCE_H

#include "page/page_read.h"
#include "serve/fetch.h"

enum { SOURCE_TRIES = 3 /* readings in a row that fail before a command takes the job for over */ };

struct source {
	const char *at;       /* of --job; NULL: this host */
	const char *key_file; /* of --key-file; NULL: the pages of this host have the key */
	/* Since source_open: */
	struct address_list addresses;
	int nkeys; /* keys that may be the job's: the file's, or those of all jobs of this host */
	uint8_t (*key)[HANDSHAKE_KEY_SIZE];
};

/* The options that the three commands share, in an array of struct option. */
enum { SOURCE_OPT_JOB = 512, SOURCE_OPT_KEY_FILE };
#define SOURCE_OPTIONS                                                                             \
	{"job", required_argument, NULL, SOURCE_OPT_JOB},                                          \
	{                                                                                          \
		"key-file", required_argument, NULL, SOURCE_OPT_KEY_FILE                           \
	}
#define SOURCE_HELP                                                                                \
	"      --job HOST:PORT  the ranks of all hosts of the job that shows itself there\n"       \
	"                      (option watch); coll top names the address on a host of the job\n"  \
	"      --key-file FILE  with --job, where no rank of the job runs: a file with the look\n" \
	"                      key that coll top --print-key prints\n"

/* Takes an answer of getopt_long.  Returns 1 if it was one of these options. */
int source_take_option(struct source *source, int answer, const char *value);
/* Returns 0, or TOOL_USAGE after a message: the operands are more than one job, or a job beside --job. */
int source_check_operands(const char *command, const struct source *source, int operands);
/* Resolves the address and finds keys.  Returns 0, or an exit status after a message in the name of `coll COMMAND`. */
int source_open(const char *command, struct source *source);
void source_close(struct source *source);
/*
 * Reads the pages of all ranks of the job; without --job those of this host.  *fetch: becomes the hosts of the job; without --job it
 * has no hosts.  Returns 0, or 1 after a message.
 */
int source_read(const char *command, struct source *source, struct page_list *pages,
		struct fetch *fetch);

#endif
