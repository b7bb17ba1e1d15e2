/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timeline.c - the observer `timeline`: a file a rank that Perfetto opens.  This file has the ring between event() and the
 * thread that writes, and the timelines of the process.
 */
#include "timeline.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	TIMELINE_EVERY_MS = 50,
	TIMELINE_FIRST_MS = 5,   /* jobs that fail at once leave a timeline, too */
	TIMELINE_LOCK_MS = 5000, /* a file system that hangs must not hang the job */
	TIMELINE_LOOK = 1024, /* event() looks every so many slots whether the ring is half full */
	TIMELINE_NICE =
		10 /* of the thread: a tenth of a processor that another thread keeps busy */
};

/* The timelines of this process.  `lock` guards all that is not atomic; event() does not take it. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_mutex_t hosts; /* guards timeline_user.is_dead against timeline_warn */
	struct timeline *first;
	pthread_t thread;
	pid_t process; /* 0: nothing is begun in this process */
	int users;
	_Atomic int callers;    /* threads of the program that wait for the lock */
	uint64_t thread_number; /* of the thread that writes: one with another number ends */
} timelines = {.lock = PTHREAD_MUTEX_INITIALIZER, .hosts = PTHREAD_MUTEX_INITIALIZER};

void timeline_warn(struct timeline *timeline, const char *fmt, ...)
{
	const struct timeline_user *user = timeline->users;
	char text[TIMELINE_PATH + 512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	pthread_mutex_lock(&timelines.hosts);
	while (user && user->is_dead)
		user = user->next;
	if (user)
		user->host->log(user->host, COLL_LOG_WARN, text);
	pthread_mutex_unlock(&timelines.hosts);
}

/* ---------------------------------------------------------------------- the ring -- */

static union timeline_place *ring_at(const struct timeline *timeline, uint64_t place)
{
	return &timeline->ring[place & (TIMELINE_SLOTS - 1)];
}

static void ring_begin(struct timeline *timeline)
{
	timeline->head = 0;
	timeline->look = 0;
	timeline->tail = 0;
	timeline->crowded = 0;
	memset(timeline->ring, 0, TIMELINE_SLOTS * sizeof(*timeline->ring));
}

/*
 * Has the ring room for the slots before `end`?  If it is half full, the thread is told so.  A signal between the thread's
 * look and its sleep is lost; the thread then comes after TIMELINE_EVERY_MS.
 */
static int ring_look(struct timeline *timeline, uint64_t end)
{
	const uint64_t tail = atomic_load_explicit(&timeline->tail, memory_order_acquire);
	const uint64_t most = tail + TIMELINE_SLOTS, next = end + TIMELINE_LOOK;

	if (end > most)
		return 0;
	if (end - tail > TIMELINE_SLOTS / 2) {
		atomic_store_explicit(&timeline->crowded, 1, memory_order_relaxed);
		pthread_cond_signal(&timelines.wake);
	}
	atomic_store_explicit(&timeline->look, next < most ? next : most, memory_order_release);
	return 1;
}

/* Takes the next slots to fill.  Returns 0 if the ring has no room. */
static int ring_take(struct timeline *timeline, uint64_t slots, uint64_t *place)
{
	uint64_t at = atomic_load_explicit(&timeline->head, memory_order_relaxed);

	do {
		if (at + slots > atomic_load_explicit(&timeline->look, memory_order_acquire) &&
		    !ring_look(timeline, at + slots))
			return 0;
	} while (!atomic_compare_exchange_weak_explicit(
		&timeline->head, &at, at + slots, memory_order_relaxed, memory_order_relaxed));
	*place = at;
	return 1;
}

/* Reads the record at the place.  Returns its slots. */
static uint64_t ring_read(const struct timeline *timeline, uint64_t place,
			  struct timeline_record *record)
{
	const struct timeline_slot *slot = &ring_at(timeline, place)->slot;
	const struct timeline_details *details = &ring_at(timeline, place + 1)->details;
	const int waits = slot->what == COLL_OBSERVE_WAIT;
	const int ends_step = slot->what == COLL_OBSERVE_STEP && slot->phase == COLL_OBSERVED_END;

	*record = (struct timeline_record){.time_ns = slot->time_ns,
					   .comm = slot->comm,
					   .number = slot->number,
					   .collective = ends_step ? 0 : slot->collective,
					   .begin_ns = ends_step ? (int64_t)slot->collective : 0,
					   .bytes = waits ? 0 : slot->bytes,
					   .thread = waits ? slot->bytes : 0,
					   .peer = slot->peer,
					   .index = slot->index,
					   .kind = slot->kind,
					   .what = slot->what,
					   .phase = slot->phase,
					   .lane = slot->lane,
					   .step = slot->step,
					   .send_memory = slot->memory >> 4,
					   .recv_memory = slot->memory & 15,
					   .op = -1};
	if (!slot->has_details)
		return 1;
	record->count = details->count;
	record->stream = details->stream;
	record->issued_ns = details->issued_ns;
	record->algorithm = details->algorithm;
	record->more = details->more;
	record->tag = details->tag;
	record->code = details->code;
	record->dtype = details->dtype;
	record->op = details->op;
	return 2;
}

/*
 * Turns the records that are in the ring now into text; what comes meanwhile waits for the next time.  Returns 0 if it has
 * stopped before, because a thread of the program waits for the lock; `whole`: it does not stop.
 */
static int ring_drain(struct timeline *timeline, int whole)
{
	const uint64_t lost = atomic_load_explicit(&timeline->lost, memory_order_relaxed);
	const uint64_t head = atomic_load_explicit(&timeline->head, memory_order_relaxed);
	uint64_t at = timeline->tail;
	struct timeline_record record;

	while (at != head) {
		if (!whole && atomic_load_explicit(&timelines.callers, memory_order_relaxed))
			return 0;
		if (atomic_load_explicit(&ring_at(timeline, at)->slot.turn, memory_order_acquire) !=
		    at + 1)
			break;
		at += ring_read(timeline, at, &record);
		atomic_store_explicit(&timeline->tail, at, memory_order_release);
		timeline_text_event(timeline, &record);
		timeline_more_free(record.more);
	}
	atomic_store_explicit(&timeline->crowded, 0, memory_order_relaxed);
	if (lost)
		timeline_text_sweep(timeline);
	return 1;
}

/* ------------------------------------------------------------------------ event() -- */

static char *event_copy(const char *text)
{
	return text ? strdup(text) : NULL;
}

/* The texts of a COMM or FAILURE; NULL without memory. */
static struct timeline_more *event_more(const coll_observed_t *event)
{
	struct timeline_more *more = calloc(1, sizeof(*more));
	const size_t ranks = (size_t)event->nranks * sizeof(int32_t);

	if (!more)
		return NULL;
	more->comm_id = strdup(event->comm_id ? event->comm_id : "?");
	more->text = event_copy(event->text);
	more->host = event_copy(event->host);
	more->backend = event_copy(event->backend);
	more->rank = event->rank;
	more->nranks = event->nranks;
	more->job = event->job;
	more->parent = event->parent;
	if (event->world_ranks && event->nranks > 0)
		more->world_ranks = malloc(ranks);
	if (more->world_ranks)
		memcpy(more->world_ranks, event->world_ranks, ranks);
	if (more->comm_id)
		return more;
	timeline_more_free(more);
	return NULL;
}

/*
 * Does the event need details?  Without an error, a step, a copy and a wait need none, and neither does the END of a call that
 * has begun.
 */
static int event_has_details(const coll_observed_t *event)
{
	const uint32_t short_ones = COLL_OBSERVE_STEP | COLL_OBSERVE_COPY | COLL_OBSERVE_WAIT;
	const int ends_well = event->phase == COLL_OBSERVED_END && event->begin_ns;

	return event->code ||
	       (!(event->what & short_ones) && !(event->what == COLL_OBSERVE_CALL && ends_well));
}

static void event_fill(struct timeline_slot *slot, const coll_observed_t *event, int has_details)
{
	slot->time_ns = event->time_ns;
	slot->comm = event->comm;
	slot->number = event->number;
	slot->collective = event->what == COLL_OBSERVE_STEP && event->phase == COLL_OBSERVED_END
				   ? (uint64_t)event->begin_ns
				   : event->collective;
	slot->bytes = event->what == COLL_OBSERVE_WAIT ? (uint64_t)(uintptr_t)pthread_self()
						       : event->bytes;
	slot->peer = event->peer;
	slot->index = event->index;
	slot->kind = (int16_t)event->kind;
	slot->what = (uint8_t)event->what;
	slot->phase = (uint8_t)event->phase;
	slot->lane = (uint8_t)event->lane;
	slot->step = (uint8_t)event->step;
	slot->memory = (uint8_t)((event->send_memory & 15) << 4 | (event->recv_memory & 15));
	slot->has_details = (uint8_t)has_details;
}

static void event_fill_details(struct timeline_details *details, const coll_observed_t *event)
{
	const int begins = event->phase == COLL_OBSERVED_BEGIN;
	const int has_texts =
		(event->what == COLL_OBSERVE_COMM && begins) || event->what == COLL_OBSERVE_FAILURE;
	const int has_issued = event->what == COLL_OBSERVE_CALL && (begins || !event->begin_ns);

	details->count = event->count;
	details->stream = event->stream;
	details->issued_ns = has_issued ? event->issued_ns : 0;
	details->algorithm = event->algorithm;
	details->more = has_texts ? event_more(event) : NULL;
	details->tag = event->tag;
	details->code = event->code;
	details->dtype = event->dtype;
	details->op = event->op;
}

/*
 * Leaves out ISSUED of a call, since its BEGIN or END says when it was issued; events that a later minor of the ABI may add;
 * and steps and copies while the ring is half full, so that there is room for calls.
 */
static int event_is_wanted(struct timeline *timeline, const coll_observed_t *event)
{
	if (event->what > COLL_OBSERVE_FAILURE || (uint32_t)event->phase > COLL_OBSERVED_END ||
	    (event->what == COLL_OBSERVE_CALL && event->phase == COLL_OBSERVED_ISSUED))
		return 0;
	if (!(event->what & (COLL_OBSERVE_STEP | COLL_OBSERVE_COPY)) ||
	    !atomic_load_explicit(&timeline->crowded, memory_order_relaxed))
		return 1;
	atomic_fetch_add_explicit(&timeline->lost, 1, memory_order_relaxed);
	return 0;
}

static void timeline_event(void *state, const coll_observed_t *event)
{
	struct timeline *timeline = ((struct timeline_user *)state)->timeline;
	struct timeline_slot *slot;
	uint64_t place;
	int has_details;

	if (!event_is_wanted(timeline, event))
		return;
	has_details = event_has_details(event);
	if (!ring_take(timeline, has_details ? 2 : 1, &place)) {
		atomic_fetch_add_explicit(&timeline->lost, 1, memory_order_relaxed);
		return;
	}
	slot = &ring_at(timeline, place)->slot;
	event_fill(slot, event, has_details);
	if (has_details)
		event_fill_details(&ring_at(timeline, place + 1)->details, event);
	atomic_store_explicit(&slot->turn, place + 1, memory_order_release);
	if (event->what == COLL_OBSERVE_FAILURE)
		pthread_cond_signal(&timelines.wake);
}

/* ------------------------------------------------------------------------- the end -- */

static void timeline_release(struct timeline *timeline)
{
	free(timeline->ring);
	free(timeline->text);
	timeline->ring = NULL;
	timeline->text = NULL;
	timeline->room = timeline->used = 0;
}

static void timeline_end(struct timeline *timeline)
{
	ring_drain(timeline, 1);
	timeline_text_end(timeline);
	timeline_file_write(timeline);
	timeline_file_close(timeline);
}

/* Takes the user from its timeline.  The timeline ends with its last user, and the thread with the last user of all timelines. */
static void timeline_leave(struct timeline_user *user)
{
	struct timeline *timeline = user->timeline;
	struct timeline_user **at = &timeline->users;
	const uint64_t lost = atomic_load(&timeline->lost);

	if (!user->next && timeline->users == user) {
		timeline_end(timeline);
		if (lost)
			timeline_warn(timeline,
				      "the timeline '%s' lacks %llu events, which came faster than "
				      "they could be written",
				      timeline->path, (unsigned long long)lost);
		timeline_release(timeline);
	}
	while (*at != user)
		at = &(*at)->next;
	*at = user->next;
	free(user);
	timelines.users--;
	if (timelines.users == 0)
		timelines.thread_number++;
}

/* ---------------------------------------------------------------------- the thread -- */

/*
 * Returns how many milliseconds the thread sleeps: every_ms; 0 if a ring is half full again; 1, in which a thread of the program
 * that waits for the lock takes it.
 */
static int timelines_write(int every_ms)
{
	int drained = 1;

	for (struct timeline *timeline = timelines.first; timeline; timeline = timeline->next)
		if (timeline->users) {
			drained &= ring_drain(timeline, 0);
			timeline_file_write(timeline);
			if (atomic_load(&timeline->head) - atomic_load(&timeline->tail) >
			    TIMELINE_SLOTS / 2)
				every_ms = 0;
		}
	return drained ? every_ms : 1;
}

/* Ends the users that timelines_abandon has left.  If no user remains, no close() joins the thread, so it detaches itself. */
static void timelines_reap(void)
{
	const int had_users = timelines.users > 0;

	for (struct timeline *timeline = timelines.first; timeline; timeline = timeline->next)
		for (struct timeline_user *user = timeline->users, *next; user; user = next) {
			next = user->next;
			if (user->is_dead)
				timeline_leave(user);
		}
	if (had_users && timelines.users == 0)
		pthread_detach(pthread_self());
}

static void *timelines_run(void *arg)
{
	const uint64_t number = (uintptr_t)arg;
	int every_ms = TIMELINE_FIRST_MS;

	(void)!nice(TIMELINE_NICE); /* on Linux of the calling thread alone */
	pthread_mutex_lock(&timelines.lock);
	while (timelines.thread_number == number) {
		const int sleep_ms = timelines_write(every_ms);

		timelines_reap();
		if (timelines.thread_number != number)
			break;
		clock_cond_wait(&timelines.wake, &timelines.lock, clock_deadline(sleep_ms));
		every_ms = every_ms * 2 < TIMELINE_EVERY_MS ? every_ms * 2 : TIMELINE_EVERY_MS;
	}
	pthread_mutex_unlock(&timelines.lock);
	return NULL;
}

static int timelines_start(void)
{
	return thread_start(&timelines.thread, timelines_run,
			    (void *)(uintptr_t)timelines.thread_number);
}

/* A process that fork has made has no thread, and its parent's timelines are not its own. */
static void timelines_in_child(void)
{
	const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	timelines.lock = fresh;
	timelines.hosts = fresh;
	timelines.first = NULL;
	timelines.users = 0;
	timelines.callers = 0;
	timelines.process = 0;
	clock_cond_init(&timelines.wake);
}

static void timelines_once(void)
{
	clock_cond_init(&timelines.wake);
	pthread_atfork(NULL, NULL, timelines_in_child);
}

/* --------------------------------------------------------------- open() and close() -- */

/* Takes the lock.  The thread that writes gives way.  Returns 0 if the thread keeps the lock for TIMELINE_LOCK_MS. */
static int timelines_lock(void)
{
	int locked;

	atomic_fetch_add(&timelines.callers, 1);
	locked = clock_lock_within(&timelines.lock, TIMELINE_LOCK_MS);
	atomic_fetch_sub(&timelines.callers, 1);
	return locked;
}

/* Returns the timeline of the path, which an earlier communicator of this process may have begun. */
static struct timeline *timelines_find(const char *path)
{
	struct timeline *timeline = timelines.first;

	while (timeline && strcmp(timeline->path, path) != 0)
		timeline = timeline->next;
	if (timeline)
		return timeline;
	timeline = calloc(1, sizeof(*timeline));
	if (!timeline)
		return NULL;
	timeline->file.fd = -1;
	snprintf(timeline->path, sizeof(timeline->path), "%s", path);
	timeline->next = timelines.first;
	timelines.first = timeline;
	return timeline;
}

static coll_result_t timeline_begin(struct timeline *timeline, const coll_observer_host_t *host,
				    coll_error_t *err)
{
	coll_result_t code;

	timeline->ring = aligned_alloc(64, TIMELINE_SLOTS * sizeof(*timeline->ring));
	timeline->text = malloc(TIMELINE_TEXT);
	timeline->room = TIMELINE_TEXT;
	timeline->rank = host->rank;
	timeline->nranks = host->nranks;
	timeline->full = 0;
	timeline->file.limit = (uint64_t)host->option_int(host, "bytes");
	snprintf(timeline->host, sizeof(timeline->host), "%s", host->host_name);
	code = timeline->ring && timeline->text
		       ? timeline_file_open(timeline, err)
		       : error_fill(err, COLL_ERR_NO_MEMORY, "no memory for a timeline");
	if (code) {
		timeline_release(timeline);
		return code;
	}
	ring_begin(timeline);
	timeline_text_begin(timeline);
	return COLL_SUCCESS;
}

/* Adds a user to the timeline of the path.  The caller has the lock. */
static coll_result_t timeline_join(struct timeline_user *user, const char *path, coll_error_t *err)
{
	struct timeline *timeline = timelines_find(path);
	coll_result_t code;

	if (!timeline)
		return error_fill(err, COLL_ERR_NO_MEMORY, "no memory for a timeline");
	if (!timeline->users) {
		code = timeline_begin(timeline, user->host, err);
		if (code)
			return code;
	}
	if (timelines.users == 0 && timelines_start()) {
		timeline_end(timeline);
		timeline_release(timeline);
		return error_fill(err, COLL_ERR_SYSTEM, "the thread of a timeline cannot start");
	}
	timelines.users++;
	timelines.process = getpid();
	user->timeline = timeline;
	user->next = timeline->users;
	timeline->users = user;
	timeline_file_write(timeline);
	return COLL_SUCCESS;
}

/* Has the pattern the rank in it?  %% is a percent sign. */
static int path_has_rank(const char *pattern)
{
	while ((pattern = strchr(pattern, '%')) != NULL && pattern[1] && pattern[1] != 'r')
		pattern += 2;
	return pattern && pattern[1] == 'r';
}

static coll_result_t timeline_path(const coll_observer_host_t *host, char path[TIMELINE_PATH],
				   coll_error_t *err)
{
	const char *pattern = host->option(host, "file");

	if (!pattern || !pattern[0])
		pattern = "timeline.%r.json";
	if (host->nranks > 1 && !path_has_rank(pattern))
		return error_fill(err, COLL_ERR_INVALID_ARGUMENT,
				  "the timeline '%s' is one file for all ranks: expected %%r (the "
				  "rank) in its name, as in job.%%r.json",
				  pattern);
	return host->expand(host, pattern, path, TIMELINE_PATH, err);
}

static coll_result_t timeline_open(const coll_observer_host_t *host, void **state,
				   coll_error_t *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct timeline_user *user;
	char path[TIMELINE_PATH];
	coll_result_t code = timeline_path(host, path, err);

	if (code)
		return code;
	user = calloc(1, sizeof(*user));
	if (!user)
		return error_fill(err, COLL_ERR_NO_MEMORY, "no memory for a timeline");
	user->host = host;
	if (!host->option_int(host, "steps") && host->abi_minor >= 1)
		host->want(host, ~(uint32_t)COLL_OBSERVE_STEP);
	pthread_once(&once, timelines_once);
	if (timelines_lock()) {
		code = timeline_join(user, path, err);
		pthread_mutex_unlock(&timelines.lock);
	} else {
		code = error_fill(err, COLL_ERR_TIMEOUT,
				  "another timeline of this process cannot be written for %d s",
				  TIMELINE_LOCK_MS / 1000);
	}
	if (code)
		free(user);
	else
		*state = user;
	return code;
}

/* The thread has the lock and is within a file system that hangs.  It ends the user when it comes back. */
static void timelines_abandon(struct timeline_user *user)
{
	const int locked = clock_lock_within(&timelines.hosts, TIMELINE_LOCK_MS);

	atomic_store(&user->is_dead, 1);
	if (locked)
		pthread_mutex_unlock(&timelines.hosts);
}

/* The thread may wait for the lock while another timeline hangs; it ends after that. */
static void timelines_join(pthread_t thread)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += TIMELINE_LOCK_MS / 1000;
	if (pthread_timedjoin_np(thread, NULL, &until))
		pthread_detach(thread);
}

static void timeline_close(void *state)
{
	pthread_t thread;
	int last;

	if (!timelines_lock()) {
		timelines_abandon(state);
		return;
	}
	thread = timelines.thread;
	timeline_leave(state);
	last = timelines.users == 0;
	if (last)
		pthread_cond_broadcast(&timelines.wake);
	pthread_mutex_unlock(&timelines.lock);
	if (last)
		timelines_join(thread);
}

/* A program that ends without coll_comm_destroy leaves whole files, too. */
__attribute__((destructor)) static void timelines_exit(void)
{
	if (timelines.process != getpid() || !timelines.users || !timelines_lock())
		return;
	for (struct timeline *timeline = timelines.first; timeline; timeline = timeline->next)
		if (timeline->users) {
			timeline_end(timeline);
			timeline->file.broken = 1;
		}
	pthread_mutex_unlock(&timelines.lock);
}

/* -------------------------------------------------------------------- the observer -- */

static const coll_option_t timeline_options[] = {
	{.key = "file",
	 .fallback = "",
	 .unit = "",
	 .help = "file of a rank, with %r (rank), %h (host), %p (process id), %j (job); unset: "
		 "the option `timeline`, or else timeline.%r.json",
	 .type = COLL_OPTION_STRING},
	{.key = "bytes",
	 .fallback = "1G",
	 .unit = "bytes",
	 .help = "largest file of a rank; the timeline ends there",
	 .min = 256 << 10,
	 .max = INT64_C(1) << 50,
	 .type = COLL_OPTION_BYTES},
	{.key = "steps",
	 .fallback = "yes",
	 .unit = "",
	 .help = "the steps of each call, too, short ones when they have ended: most of what the "
		 "timeline costs a short call",
	 .type = COLL_OPTION_BOOL},
};

COLL_OBSERVER_EXPORT const coll_observer_t coll_observer_v1 = {
	.size = sizeof(coll_observer_t),
	.abi_minor = COLL_OBSERVER_ABI_MINOR,
	.wants = COLL_OBSERVE_COMM | COLL_OBSERVE_CALL | COLL_OBSERVE_STEP | COLL_OBSERVE_COPY |
		 COLL_OBSERVE_MESSAGE | COLL_OBSERVE_WAIT | COLL_OBSERVE_FAILURE,
	.name = "timeline",
	.version = "1.0",
	.description = "writes a file a rank that Perfetto and chrome://tracing open",
	.options = timeline_options,
	.option_count = sizeof(timeline_options) / sizeof(timeline_options[0]),
	.option_size = sizeof(coll_option_t),
	.open = timeline_open,
	.event = timeline_event,
	.close = timeline_close,
	.flags = COLL_OBSERVER_UNCANCELLED | COLL_OBSERVER_TERSE,
};
