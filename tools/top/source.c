/* SPDX-License-Identifier: BSD-3-Clause */
/* source.c - see source.h. */
#include <coll/coll.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/error.h"
#include "lib/tool.h"
#include "top/source.h"

enum { SOURCE_TIMEOUT_MS = 5000 };

int source_take_option(struct source *source, int answer, const char *value)
{
	if (answer == SOURCE_OPT_JOB)
		source->at = value;
	if (answer == SOURCE_OPT_KEY_FILE)
		source->key_file = value;
	return answer == SOURCE_OPT_JOB || answer == SOURCE_OPT_KEY_FILE;
}

int source_check_operands(const char *command, const struct source *source, int operands)
{
	if (operands <= !source->at)
		return 0;
	return tool_usage(command, "it takes one job%s, got %d",
			  source->at ? ", which --job names" : "", operands);
}

/* ---------------------------------------------------------------------------- keys -- */

static int source_has_key(const struct source *source, const uint8_t key[HANDSHAKE_KEY_SIZE])
{
	int has = 0;

	for (int i = 0; i < source->nkeys; i++)
		has |= memcmp(source->key[i], key, HANDSHAKE_KEY_SIZE) == 0;
	return has;
}

/* The keys of the jobs that have a rank on this host. */
static int source_find_keys(const char *command, struct source *source)
{
	struct page_list pages;

	if (page_list_read(&pages) ||
	    !(source->key = calloc((size_t)pages.count + 1, sizeof(*source->key)))) {
		fprintf(stderr, "coll %s: no memory for the pages of this host\n", command);
		return 1;
	}
	for (int i = 0; i < pages.count; i++)
		if (page_has_look_key(pages.view[i]) &&
		    !source_has_key(source, pages.view[i]->head.look_key))
			memcpy(source->key[source->nkeys++], pages.view[i]->head.look_key,
			       HANDSHAKE_KEY_SIZE);
	page_list_free(&pages);
	if (source->nkeys)
		return 0;
	fprintf(stderr,
		"coll %s: no job of this user with the option watch = yes has a rank on this host, "
		"so the key is not known here: run coll top --print-key where a rank runs, and "
		"name "
		"a file with what it prints by --key-file\n",
		command);
	return 1;
}

/* What speaks against the open file as a secret of this user; NULL: nothing. */
static const char *source_objection(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return strerror(errno);
	if (!S_ISREG(st.st_mode))
		return "it is no regular file";
	if (st.st_uid != geteuid())
		return "it belongs to another user";
	return st.st_mode & 077 ? "others may read or write it: run chmod 600" : NULL;
}

static int source_parse_key(const char *text, uint8_t key[HANDSHAKE_KEY_SIZE])
{
	static const char digits[] = "0123456789abcdef";

	if (strspn(text, digits) != 2 * HANDSHAKE_KEY_SIZE ||
	    strspn(text + 2 * HANDSHAKE_KEY_SIZE, "\r\n") != strlen(text + 2 * HANDSHAKE_KEY_SIZE))
		return -1;
	for (int i = 0; i < HANDSHAKE_KEY_SIZE; i++)
		key[i] = (uint8_t)((strchr(digits, text[2 * i]) - digits) * 16 +
				   (strchr(digits, text[2 * i + 1]) - digits));
	return 0;
}

static int source_read_key(const char *command, struct source *source)
{
	const int fd = open(source->key_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	const char *objection = fd < 0 ? strerror(errno) : source_objection(fd);
	char text[64] = "";

	source->key = calloc(1, sizeof(*source->key));
	if (!objection && read(fd, text, sizeof(text) - 1) < 0)
		objection = strerror(errno);
	if (!objection && !source->key)
		objection = "no memory";
	if (!objection && source_parse_key(text, source->key[0]))
		objection =
			"it does not hold 32 hexadecimal digits, as coll top --print-key prints "
			"them";
	if (fd >= 0)
		close(fd);
	source->nkeys = !objection;
	if (objection)
		fprintf(stderr, "coll %s: cannot take the key from '%s': %s\n", command,
			source->key_file, objection);
	return objection != NULL;
}

/* -------------------------------------------------------------------------- looking -- */

int source_open(const char *command, struct source *source)
{
	int status;

	if (!source->at && source->key_file)
		return tool_usage(command, "--key-file needs --job");
	if (!source->at)
		return 0;
	status = source->key_file ? source_read_key(command, source)
				  : source_find_keys(command, source);
	if (!status &&
	    address_resolve(source->at, "--job", SOURCE_TIMEOUT_MS, &source->addresses)) {
		fprintf(stderr, "coll %s: %s\n", command, error_text());
		status = 1;
	}
	if (status)
		source_close(source);
	return status;
}

void source_close(struct source *source)
{
	free(source->key);
	source->key = NULL;
	source->nkeys = 0;
}

/* Tries one key after the other; a key that has served is the only one from then on. */
static int source_fetch(struct source *source, struct fetch *fetch)
{
	int code = COLL_ERR_PERMISSION;

	for (int i = 0; i < source->nkeys && code; i++) {
		code = fetch_job(fetch, &source->addresses, source->key[i], SOURCE_TIMEOUT_MS);
		if (code)
			continue;
		memmove(source->key[0], source->key[i], sizeof(source->key[0]));
		source->nkeys = 1;
	}
	return code;
}

/* Moves the pages of all hosts to one list. */
static int source_gather(struct fetch *fetch, struct page_list *pages)
{
	int code = COLL_SUCCESS;

	*pages = (struct page_list){.count = 0};
	for (int h = 0; !code && h < fetch->nhosts; h++) {
		struct page_list *from = &fetch->host[h].pages;

		while (!code && from->count > 0) {
			code = page_list_add(pages, from->view[from->count - 1]);
			from->count -= !code;
		}
	}
	page_list_sort(pages);
	return code;
}

/* Returns 0, or 1 after a message: no host of the job shows a page. */
static int source_check(const char *command, struct fetch *fetch, const struct page_list *pages)
{
	if (pages->count)
		return 0;
	fprintf(stderr, "coll %s: none of the %d hosts of the job shows a rank: %s, rank %d: %s\n",
		command, fetch->nhosts, fetch->host[0].name, fetch->host[0].rank,
		fetch->host[0].code ? fetch->host[0].why : "it has no pages (option page)");
	fetch_free(fetch);
	return 1;
}

/* Most errors of a connection name the address themselves. */
static void source_complain(const char *command, const struct source *source)
{
	if (strstr(error_text(), source->at))
		fprintf(stderr, "coll %s: %s\n", command, error_text());
	else
		fprintf(stderr, "coll %s: %s: %s\n", command, source->at, error_text());
}

int source_read(const char *command, struct source *source, struct page_list *pages,
		struct fetch *fetch)
{
	*fetch = (struct fetch){.nhosts = 0};
	if (source->at && source_fetch(source, fetch)) {
		source_complain(command, source);
		return 1;
	}
	if (source->at ? !source_gather(fetch, pages) : !page_list_read(pages))
		return source->at ? source_check(command, fetch, pages) : 0;
	fprintf(stderr, "coll %s: no memory for the pages\n", command);
	page_list_free(pages);
	fetch_free(fetch);
	return 1;
}
