/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * serve_fuzz.c - what servers of pages and their clients say to each other (option watch): the answers, as `coll top --job` takes
 * them, and the head of a request, as a server does.
 *
 * Input: which; of a list of hosts or a page: where it ends; then patches to a good one: where, how many bytes, the bytes.
 */
#include "fuzz.h"
#include "serve/clients.h"
#include "serve/fetch.h"

const char *const fuzz_name = "serve";
const long fuzz_runs = 20000;

enum { HOSTS = 3, WHOLE = 255 };

static void patch(struct fuzz_input *in, uint8_t *bytes, size_t size)
{
	while (in->left) {
		uint16_t at = 0;
		unsigned len;

		fuzz_take(in, &at, 2);
		len = 1 + fuzz_up_to(in, 15);
		fuzz_take(in, bytes + at % (size - 16), len);
	}
}

/* The first part of the bytes in memory of its own, as the input says. */
static uint8_t *cut(const uint8_t *bytes, size_t *size, unsigned end)
{
	uint8_t *copy;

	*size = end == WHOLE ? *size : *size * end / WHOLE;
	copy = fuzz_memory(*size);
	memcpy(copy, bytes, *size);
	return copy;
}

static void take_hosts(struct fuzz_input *in)
{
	union {
		struct serve_hosts hosts;
		uint8_t bytes[sizeof(struct serve_hosts) + HOSTS * sizeof(struct serve_host)];
	} body = {.hosts = {.job = 7, .nranks = 8, .nhosts = HOSTS}};
	const unsigned end = fuzz_byte(in);
	size_t size = sizeof(body.bytes);
	struct fetch fetch = {.nhosts = 0};
	uint8_t *copy;

	for (int h = 0; h < HOSTS; h++)
		body.hosts.host[h] = (struct serve_host){
			.name = "node", .rank = h, .ranks = 2, .share = {.count = SERVE_ADDRESSES}};
	patch(in, body.bytes, size);
	copy = cut(body.bytes, &size, end);
	if (!fetch_take_hosts(&fetch, copy, size))
		for (int h = 0; h < fetch.nhosts; h++) {
			const struct fetch_host *host = &fetch.host[h];

			fuzz_promise(host->rank >= 0 && host->rank < fetch.nranks,
				     "a host has a rank of the job");
			fuzz_promise(host->ranks > 0 && host->ranks <= fetch.nranks,
				     "and no more ranks than the job");
			fuzz_promise(host->addresses.count <= SERVE_ADDRESSES, "and few addresses");
			for (int i = 0; i < host->addresses.count; i++)
				fuzz_promise(address_port(&host->addresses.item[i]) != 0,
					     "each with a port");
		}
	fetch_free(&fetch);
	free(copy);
}

static uint8_t *make_page(size_t *size)
{
	static _Alignas(PAGE_BLOCK) struct page_comm comm = {.used = 1, .nranks = 4, .issued = 3};
	struct page_view view = {.head = {.version = PAGE_VERSION,
					  .head_bytes = PAGE_BLOCK,
					  .slot_bytes = PAGE_SLOT,
					  .slots = PAGE_SLOTS,
					  .job = 7,
					  .rank = 1,
					  .nranks = 4,
					  .pid = 1 << 30},
				 .life = PAGE_LIVES,
				 .state = 'S',
				 .now_us = 5,
				 .comms = 1,
				 .comm = {&comm}};
	uint8_t *bytes;

	memcpy(view.head.magic, PAGE_MAGIC, sizeof(view.head.magic));
	bytes = serve_pack_page(&view, 0, size);
	if (!bytes)
		exit(2);
	return bytes;
}

static void take_page(struct fuzz_input *in)
{
	const struct fetch fetch = {.job = 7, .nranks = 4};
	struct fetch_host host = {.rank = 0};
	const unsigned end = fuzz_byte(in);
	const uint32_t from = fuzz_up_to(in, 3);
	size_t size;
	uint8_t *bytes = make_page(&size), *copy;

	patch(in, bytes, size);
	copy = cut(bytes, &size, end);
	if (!fetch_take_page(&fetch, &host, from, copy, size)) {
		const struct page_view *view = host.pages.view[0];

		fuzz_promise(view->head.job == 7 && view->head.rank >= (int)from &&
				     view->head.rank < 4,
			     "a page of the job, and of a rank that was asked for");
		fuzz_promise(view->comms >= 0 && view->comms <= PAGE_SLOTS,
			     "no more than its slots");
		fuzz_promise(view->now_us >= 0, "its time is a time");
	}
	page_list_free(&host.pages);
	free(bytes);
	free(copy);
}

static void take_request(struct fuzz_input *in)
{
	struct tree_frame head;

	fuzz_take(in, &head, sizeof(head));
	fuzz_promise(!clients_is_request(&head) || (head.len == 0 && (head.type == SERVE_HOSTS ||
								      head.type == SERVE_PAGE)),
		     "a request has no body");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size};

	switch (fuzz_up_to(&in, 2)) {
	case 0: take_hosts(&in); break;
	case 1: take_page(&in); break;
	default: take_request(&in); break;
	}
	return 0;
}
