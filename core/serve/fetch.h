/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fetch.h - the pages of a job's ranks from the servers of their hosts (serve.h), for tools.
 *
 * Every byte that comes may be anything: it is checked as page_read.h checks the bytes of a file.
 */
#ifndef CORE_SERVE_FETCH_H
#define CORE_SERVE_FETCH_H

#include "serve/protocol.h"

enum { FETCH_WHY = 400 };

struct fetch_host {
	char name[64];
	int rank, ranks; /* the rank that serves; how many ranks the host has */
	struct address_list addresses;
	struct page_list pages; /* sorted by rank */
	int code;               /* why the host has not answered, with the text; 0: it has */
	char why[FETCH_WHY];
};

struct fetch {
	uint64_t job;
	int nranks;
	int nhosts;
	struct fetch_host *host;
};

/*
 * Asks the server at the addresses for the hosts of its job, and then all these hosts for their pages, several at a time.  Each
 * host has timeout_ms for the connection and for each answer; after twice that time no more hosts are asked.  Returns 0 if the
 * first server has told the hosts, whether or not their pages came; else a code with error_text(): COLL_ERR_PERMISSION if the first
 * server has another key.
 */
int fetch_job(struct fetch *fetch, const struct address_list *at,
	      const uint8_t look_key[HANDSHAKE_KEY_SIZE], int64_t timeout_ms);
void fetch_free(struct fetch *fetch);

/* Takes the body of a SERVE_HOSTS into an empty struct.  For this file and its fuzz target. */
int fetch_take_hosts(struct fetch *fetch, const uint8_t *body, size_t size);
/* Adds the page of the body of a SERVE_PAGE, which must be of the job and of a rank from `from` on. */
int fetch_take_page(const struct fetch *fetch, struct fetch_host *host, uint32_t from,
		    const uint8_t *body, size_t size);

#endif
