/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * page_fuzz.c - the pages of other processes, as `coll top` and `coll dump` read them.
 *
 * Input: where the file ends; then patches to a page with one communicator: where, how many bytes, the bytes.
 */
#include "fuzz.h"
#include "page/page_read.h"
#include "page/rows.h"

#include <sys/mman.h>
#include <unistd.h>

const char *const fuzz_name = "page";
const long fuzz_runs = 3000;

enum { PATCHED = PAGE_BLOCK + PAGE_SLOT, ENDS = 16 };

static struct rows rows;

/* A page with a few operations, of which the last is open. */
static void make_page(uint8_t *page)
{
	struct page_head *head = (void *)page;
	struct page_comm *comm = (void *)(page + PAGE_BLOCK);

	*head = (struct page_head){.version = PAGE_VERSION,
				   .head_bytes = PAGE_BLOCK,
				   .slot_bytes = PAGE_SLOT,
				   .slots = PAGE_SLOTS,
				   .nranks = 4,
				   .pid = 1 << 30,
				   .host = "host",
				   .observer = {"lines"}};
	memcpy(head->magic, PAGE_MAGIC, sizeof(head->magic));
	comm->used = 1;
	comm->nranks = 4;
	comm->parts = PAGE_PART_WORLD | PAGE_PART_MESSAGES;
	comm->waiting = 1;
	comm->issued = 70;
	comm->messages = 3;
	memcpy(comm->id, "0", 2);
	for (int n = 7; n <= 70; n++)
		comm->op[n % LOG_RECORDS] =
			(struct record){.meta = {COLL_KIND_ALLREDUCE | 10 << 8, 3},
					.count = 3,
					.issued_us = n,
					.started_us = n,
					.ended_us = n < 70 ? n : 0,
					.seq_or_tag = (uint32_t)n - 1,
					.kind = COLL_KIND_ALLREDUCE};
}

/* What the commands do with a communicator. */
static void use_comm(const struct page_view *view, const struct page_comm *comm)
{
	const struct rank_words ranks = page_ranks(comm);
	const struct rows_of of = {
		.title = "", .id = comm->id, .host = view->head.host, .backend = comm->backend};
	const struct record *op;
	uint64_t n = page_record_before(comm), seen = 0;

	rows.used = 0;
	rows.offset_us = view->head.realtime_us;
	rows_add_head(&rows, &of);
	rows_add_plain(&rows, comm->failure);
	rows_add_columns(&rows);
	while ((op = page_record(comm, ++n))) {
		rows_add_op(&rows, &ranks, comm->flags & PAGE_NATIVE, n, op, "-");
		seen++;
	}
	for (int i = 0; i < LOG_RECORDS; i++)
		rows_add_message(&rows, &ranks, &comm->message[i]);
	fuzz_promise(seen <= LOG_RECORDS, "no more records than there are");
	fuzz_promise(rows.used < sizeof(rows.text), "the text fits");
	fuzz_promise(page_oldest_open(comm) <= comm->issued, "an open operation was issued");
	fuzz_promise(page_last_ended(comm) <= comm->issued, "so was an ended one");
	for (int i = 0; i < PAGE_AWAITED; i++)
		fuzz_promise(comm->awaited_rank[i] >= 0 && comm->awaited_rank[i] < comm->nranks,
			     "an awaited rank is a rank");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size};
	static _Alignas(PAGE_BLOCK) uint8_t page[PATCHED];
	const unsigned end = fuzz_up_to(&in, ENDS);
	const int fd = memfd_create("page", MFD_CLOEXEC);
	struct page_view *view;

	memset(page, 0, sizeof(page));
	make_page(page);
	while (in.left) {
		uint16_t at = 0;
		unsigned len;

		fuzz_take(&in, &at, 2);
		len = 1 + fuzz_up_to(&in, 15);
		fuzz_take(&in, page + at % (PATCHED - 16), len);
	}
	if (fd < 0 || write(fd, page, PATCHED) != PATCHED ||
	    ftruncate(fd, end == ENDS ? PATCHED / 3
			  : end       ? PATCHED
				      : PAGE_BYTES))
		exit(2);
	view = page_view_read(fd);
	close(fd);
	for (int i = 0; view && i < view->comms; i++)
		use_comm(view, view->comm[i]);
	if (view)
		(void)page_observer(view);
	page_view_free(view);
	return 0;
}
