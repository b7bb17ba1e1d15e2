/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * page.h - the pages of this host's ranks: what other processes see of a job.
 *
 * A rank keeps a page, a file in the user's runtime directory (page_directory.h) that the rank maps: a head, and a slot for each
 * of its communicators, with the log of the last operations.  The rank writes by plain stores into the mapping, so that
 * the log costs the same as in memory of its own.  Tools read the file without the help of the rank, also while the rank
 * computes, hangs or is stopped, and when it has died.
 *
 *   coll-<job, 16 digits>-rank-<r>-pid-<p>.page
 *       head            PAGE_BLOCK bytes
 *       slot 0..63      PAGE_SLOT bytes each: struct page_comm, whose parts after `log` the rank allocates when it needs them
 *
 * Writer     The file is sparse.  The rank allocates the blocks of a part before it writes or reads there, because a touch of a
 *            hole of a file system that is full would end the process (SIGBUS).  For the same reason a user must not
 *            shorten a page; nobody else can, since the directory and the file are the user's alone.
 * Reader     A tool reads the file into memory of its own and maps nothing, so that no change of the file harms the tool.  It
 *            expects any value in every byte, and reads a slot again if the rank has changed the slot meanwhile (page_read.c).
 * Stores     A word of at most 8 bytes is written at once.  Several words that belong together may be read half old, half
 *            new; `issued` tells which records are complete.
 * Versions   A reader takes pages of its own PAGE_VERSION only, and names the others.
 */
#ifndef CORE_PAGE_PAGE_H
#define CORE_PAGE_PAGE_H

#include "base/kind.h"
#include "page/record.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE_MAGIC "collpage"

enum {
	PAGE_VERSION = 2,
	PAGE_BLOCK = 4096,
	PAGE_SLOTS = 64,
	PAGE_AWAITED = 32,   /* ranks that a wait may name */
	PAGE_RANKS = 1024,   /* ranks of which a slot has the number in the job, and counters */
	PAGE_OBSERVERS = 16, /* observers whose names the head has */
	PAGE_NAME = 64,
	PAGE_TEXT = 1024 /* of a failure */
};

/* --- counters (coll_counters_t in coll/coll.h); every counter only grows, except unexpected_now and unexpected_memory */

/*
 * Buckets of latencies: bucket b counts the calls that took less than 2^(b + PAGE_BUCKET_FIRST) ns, and no less than half of that
 * unless b is 0; the last bucket counts all longer calls.
 */
enum { PAGE_BUCKETS = 32, PAGE_BUCKET_FIRST = 7 };

/* Rows of counters: a row a kind (COLL_KIND_*, KIND_AWAIT), then messages outside the order. */
enum { PAGE_ISEND = KIND_AWAIT + 1, PAGE_IRECV = KIND_AWAIT + 2, PAGE_KINDS = KIND_AWAIT + 3 };

struct page_kind {
	uint64_t calls, bytes;
	uint64_t ended; /* calls whose latency is known: the sum of the buckets */
	/* The sum of these latencies: from a call to its end as the rank has seen it. */
	uint64_t latency_ns;
	/* How long threads of the program slept or polled in libcoll for the calls. */
	uint64_t waited_ns;
	uint64_t bucket[PAGE_BUCKETS];
};

/* What this rank has seen of another rank of the communicator. */
struct page_peer {
	/*
	 * Waits for an operation whose last message came from that rank, or left for that rank after the others had come; and
	 * how long these waits took.
	 */
	uint64_t last_waits, last_ns;
	uint64_t behind; /* stalls in which that rank was behind: see watch/stall.c */
};

struct page_counts {
	uint64_t stalls;       /* waits in which nothing moved for `stall_after` */
	uint64_t staged;       /* operations and messages copied through host memory */
	uint64_t staged_bytes; /* bytes of these copies, between devices and host memory */
	/*
	 * Messages on the endpoint that came before this rank had posted their receive, and the bytes of these messages;
	 * unexpected_now: how many of these messages still wait for their receive.
	 */
	uint64_t unexpected, unexpected_bytes, unexpected_now;
	/* Bytes of memory that hold such messages now, and the most that there ever were. */
	uint64_t unexpected_memory, unexpected_memory_most;
	struct page_kind kind[PAGE_KINDS];
	struct page_peer peer[PAGE_RANKS];
};

/* --- a communicator */

enum { PAGE_NATIVE = 1 /* the backend executes the calls */ };

struct page_comm {
	/* --- its log: also of communicators without a slot, then on the heap (page_log_new) */

	struct record op[LOG_RECORDS]; /* operation `number` is at number % LOG_RECORDS */
	/*
	 * Operations ever issued.  The rank writes it before it writes the record of the newest operation.  From then on readers
	 * pass over the older record that the newest operation's record replaces.
	 */
	_Atomic uint64_t issued;
	uint32_t waiting; /* threads of the program that wait in libcoll */
	uint32_t failed;  /* the code of its failure, or 0 */
	/* Since when these threads wait, by the clock of the records: written when a thread goes to sleep; 0: no thread sleeps. */
	int64_t since_us;
	uint64_t collectives; /* ever issued: more than lane->seq when that has wrapped */
	/* The number of the observer that a thread is in, from 1, for an event of this communicator; or 0. */
	_Atomic uint32_t inside;
	char log_end[0];

	/* --- what only the slots have */

	_Atomic uint32_t
		used;   /* odd: a communicator has the slot and has filled it; each change adds 1 */
	uint32_t flags; /* PAGE_NATIVE */
	int32_t rank, nranks; /* of this rank in the communicator */
	int32_t lane, spare;  /* LANE_* */
	char id[32];          /* as in the files of the option `dump` */
	char backend[32];
	int64_t made_us;
	int64_t noted_us;                   /* when the rank last noted for whom it waits */
	int32_t awaited_count;              /* ranks without whose data the wait does not end */
	int32_t awaited_rank[PAGE_AWAITED]; /* the first of these ranks */
	uint32_t parts;                     /* PAGE_PART_* that are allocated */
	uint64_t messages;                  /* messages ever kept in `message` */
	char failure[PAGE_TEXT];            /* the text of its failure */
	int64_t failed_us;                  /* by the realtime clock */
	int64_t polled_us; /* when the program last polled, for a request or an event; 0: never */

	/* --- parts, each in blocks of its own */

	_Alignas(PAGE_BLOCK) struct record message[LOG_RECORDS]; /* outside the order */
	/* The ranks' numbers in the job; without this part they are the same. */
	_Alignas(PAGE_BLOCK) int32_t world[PAGE_RANKS];
	_Alignas(PAGE_BLOCK) struct page_counts counts;
};

enum { PAGE_PART_MESSAGES = 1, PAGE_PART_WORLD = 2, PAGE_PART_COUNTS = 4 };

enum { PAGE_LOG = offsetof(struct page_comm, log_end), PAGE_SLOT = sizeof(struct page_comm) };

_Static_assert(offsetof(struct page_comm, message) == 2 * PAGE_BLOCK, "two blocks always");
_Static_assert(PAGE_SLOT % PAGE_BLOCK == 0, "slots are whole blocks");

/* --- a rank */

struct page_head {
	char magic[8]; /* PAGE_MAGIC, written last */
	uint32_t version, head_bytes, slot_bytes, slots;
	uint64_t job; /* context_job */
	int32_t rank, nranks;
	int32_t pid;
	/*
	 * 1: the memory of the page keeps a lock (F_OFD_SETLK) on its file.  The lock is free once the process and its forked
	 * children have ended, which a reader in another namespace of process ids sees too.
	 */
	int32_t locked;
	uint64_t start;      /* of the process: field 22 of /proc/PID/stat */
	uint64_t namespace_; /* of process ids: the inode of /proc/self/ns/pid */
	int64_t made_us;     /* by the clock of the records, CLOCK_MONOTONIC_COARSE */
	int64_t realtime_us; /* how far the time of day was ahead of that clock when the page was made */
	char boot[40];       /* /proc/sys/kernel/random/boot_id */
	char host[PAGE_NAME], backend[PAGE_NAME], program[PAGE_NAME], library[PAGE_NAME];
	_Atomic uint32_t more; /* communicators that have no slot now */
	char observer[PAGE_OBSERVERS][32];
	/*
	 * With the option `watch`: the key for looking at the job from elsewhere (serve/protocol.h), else zeros; and where the rank
	 * shows the ranks of this host, "" if it does not.
	 */
	uint8_t look_key[16];
	char look_at[80];
};

_Static_assert(sizeof(struct page_head) <= PAGE_BLOCK, "the head is a block");

enum { PAGE_BYTES = PAGE_BLOCK + PAGE_SLOTS * PAGE_SLOT };

/* Returns zeroed memory for the log of a communicator that has no slot; NULL: memory has run out. */
struct page_comm *page_log_new(void);

#endif
