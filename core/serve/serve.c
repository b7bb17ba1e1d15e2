/* SPDX-License-Identifier: BSD-3-Clause */
/* serve.c - the server of a host: its answers, its thread, its beginning and its end: see serve.h. */
#include "serve/serve.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/random.h"
#include "base/thread.h"
#include "endpoint/context_log.h"
#include "page/page_file.h"
#include "serve/clients.h"
#include "transport/traffic.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	SERVE_BEAT_MS = 1000, /* the longest sleep of the thread */
	SERVE_POLLS = 128     /* descriptors in its poll set */
};

/* What processes share that see the same pages by the same names, and reach each other by the same addresses. */
enum {
	SERVE_SHARES = COLL_SHARES_HOST | COLL_SHARES_NETWORK | COLL_SHARES_PIDS | COLL_SHARES_FILES
};

/* A rank whose page this server shows. */
struct served {
	int rank;
	long pid;
};

struct server {
	struct server *next;
	int refs; /* lanes */
	uint64_t job;
	struct served *served; /* in the order of the ranks; the first is the server's */
	int nserved;
	/*
	 * The directories of pages; -1: not there.  They are opened when the job begins, since their paths follow from the
	 * environment, which the program may change while the thread runs.
	 */
	int directory[PAGE_DIRECTORIES];
	struct serve_hosts *hosts;
	struct serve_share share; /* where it listens */
	struct serve_keys keys;
	struct log_about about;
	struct handshake hs;
	struct acceptor acceptor;
	struct clients clients;
	struct poll_set set;
	struct pollfd fds[SERVE_POLLS];
	int wake_fd, wake_place;
	int stop;
	pthread_t thread;
};

_Static_assert(sizeof(((struct page_head *)0)->look_at) == ADDRESS_TEXT_SIZE,
	       "it holds an address");

/* Guards the list of servers, their refs and `stop`.  Nobody holds it for longer than a moment. */
static pthread_mutex_t serve_lock = PTHREAD_MUTEX_INITIALIZER;
/*
 * Held by a server's thread while it is not in poll(), so that a fork finds the servers whole, and guards `hosts` and `directory`.
 * Taken after serve_lock, if both are.
 */
static pthread_mutex_t serve_work = PTHREAD_MUTEX_INITIALIZER;
static struct server *servers;

/* ------------------------------------------------------------------------- answers -- */

static uint8_t *serve_answer_hosts(const struct server *s, size_t room, size_t *size)
{
	uint8_t *memory;

	*size = sizeof(*s->hosts) + (size_t)s->hosts->nhosts * sizeof(s->hosts->host[0]);
	memory = malloc(room + *size);
	return memory ? memcpy(memory + room, s->hosts, *size) - room : NULL;
}

/* The page of the first rank from `from` on that has one, or NULL. */
static struct page_view *serve_find_page(const struct server *s, uint32_t from)
{
	struct page_view *view = NULL;

	for (int i = 0; !view && i < s->nserved; i++) {
		const struct page_name name = {s->job, s->served[i].rank, s->served[i].pid};

		if ((uint32_t)name.rank >= from)
			view = page_view_find(s->directory, PAGE_DIRECTORIES, &name);
	}
	return view;
}

static uint8_t *serve_answer(void *owner, const struct tree_frame *request, size_t room,
			     uint32_t *type, size_t *size)
{
	const struct server *s = owner;
	struct page_view *view = NULL;
	uint8_t *memory;

	*type = request->type;
	if (request->type == SERVE_HOSTS)
		return serve_answer_hosts(s, room, size);
	view = serve_find_page(s, request->rank);
	if (!view)
		*type = SERVE_END;
	*size = 0;
	memory = view ? serve_pack_page(view, room, size) : malloc(room);
	page_view_free(view);
	return memory;
}

/* ---------------------------------------------------------------------- the thread -- */

static void serve_log(const void *user, int level, const char *text)
{
	const struct serve_keys *keys = user;
	const struct server *s = (const void *)((const char *)keys - offsetof(struct server, keys));

	log_about(&s->about, level, "%s", text);
}

static void serve_connected(void *owner, const struct session *session)
{
	struct server *s = owner;

	clients_add(&s->clients, session);
}

/* Returns 0 when the thread is to end. */
static int serve_prepare(struct server *s)
{
	int goes_on;

	pthread_mutex_lock(&serve_lock);
	goes_on = !s->stop;
	pthread_mutex_unlock(&serve_lock);
	pthread_mutex_lock(&serve_work);
	poll_set_begin(&s->set, clock_deadline(SERVE_BEAT_MS));
	poll_set_watch(&s->set, &s->wake_place, s->wake_fd, POLLIN);
	acceptor_prepare(&s->acceptor, &s->set);
	clients_prepare(&s->clients, &s->set);
	pthread_mutex_unlock(&serve_work);
	return goes_on;
}

static void serve_advance(struct server *s)
{
	pthread_mutex_lock(&serve_work);
	clients_advance(&s->clients, &s->set);
	/* An error is about a rank of the job that dials; only tools dial a server. */
	(void)acceptor_advance(&s->acceptor, &s->set);
	pthread_mutex_unlock(&serve_work);
}

static void *serve_run(void *arg)
{
	struct server *s = arg;

	while (serve_prepare(s)) {
		poll_set_wait(&s->set);
		serve_advance(s);
		thread_let_signals_end();
	}
	return NULL;
}

/* ----------------------------------------------------------------------- its parts -- */

/* The thread has ended, was never started, or runs in the parent of this process. */
static void serve_close(struct server *s)
{
	clients_end(&s->clients, &s->set);
	acceptor_end(&s->acceptor);
	for (int i = 0; i < PAGE_DIRECTORIES; i++)
		if (s->directory[i] >= 0)
			close(s->directory[i]);
	if (s->wake_fd >= 0)
		close(s->wake_fd);
	free(s->served);
	free(s->hosts);
	free(s);
}

static void serve_open_directories(struct server *s)
{
	char path[PAGE_PATH];

	for (int i = 0; i < PAGE_DIRECTORIES; i++)
		if (s->directory[i] < 0)
			s->directory[i] = page_directory_open(i, 0, path);
}

static int serve_share_all(const struct bootstrap *bootstrap, int a, int b)
{
	return (bootstrap_shares(bootstrap, a, b) & SERVE_SHARES) == SERVE_SHARES;
}

/* Does no lower rank serve the pages of this one? */
static int serve_is_lowest(const struct context *job)
{
	for (int r = 0; r < job->rank; r++)
		if (serve_share_all(job->bootstrap, r, job->rank))
			return 0;
	return 1;
}

/* Lists the ranks whose pages the server shows. */
static int serve_list_ranks(struct server *s, const struct context *job)
{
	s->served = calloc((size_t)job->nranks, sizeof(*s->served));
	if (!s->served)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", job->nranks);
	for (int r = job->rank; r < job->nranks; r++)
		if (serve_share_all(job->bootstrap, r, job->rank))
			s->served[s->nserved++] =
				(struct served){r, (long)bootstrap_peer(job->bootstrap, r)->pid};
	return COLL_SUCCESS;
}

/* A list of hosts with memory for `most`, and without a host.  Returns NULL: there is no memory. */
static struct serve_hosts *serve_new_hosts(const struct server *s, const struct context *job,
					   int most)
{
	struct serve_hosts *hosts =
		calloc(1, sizeof(*hosts) + (size_t)most * sizeof(hosts->host[0]));

	if (!hosts)
		return NULL;
	hosts->job = s->job;
	hosts->nranks = job->nranks;
	return hosts;
}

static void serve_fill_host(const struct bootstrap *bootstrap, int rank,
			    const struct serve_share *share, struct serve_host *host)
{
	*host = (struct serve_host){.rank = rank, .share = *share};
	snprintf(host->name, sizeof(host->name), "%s", bootstrap_peer(bootstrap, rank)->host);
}

/* Adds the hosts of all ranks.  lowest: of bootstrap_hosts.  number: becomes the number of the host of each lowest rank. */
static void serve_add_hosts(struct serve_hosts *hosts, const struct context *job, const int *lowest,
			    int *number, const struct serve_share *shares)
{
	for (int r = 0; r < job->nranks; r++) {
		if (lowest[r] == r) {
			number[r] = hosts->nhosts++;
			serve_fill_host(job->bootstrap, r, &shares[r], &hosts->host[number[r]]);
		}
		hosts->host[number[lowest[r]]].ranks++;
	}
	if (hosts->nhosts > SERVE_HOSTS_MOST)
		hosts->nhosts = SERVE_HOSTS_MOST;
}

/* The hosts of all ranks.  Returns NULL: there is no memory. */
static struct serve_hosts *serve_list_hosts(const struct server *s, const struct context *job,
					    const struct serve_share *shares)
{
	struct serve_hosts *hosts = serve_new_hosts(s, job, job->nranks);
	int *lowest = calloc((size_t)job->nranks * 2, sizeof(*lowest));

	if (!hosts || !lowest || bootstrap_hosts(job->bootstrap, SERVE_SHARES, lowest)) {
		free(hosts);
		free(lowest);
		return NULL;
	}
	serve_add_hosts(hosts, job, lowest, lowest + job->nranks, shares);
	free(lowest);
	return hosts;
}

/* Until the ranks have told each other where the servers listen (serve_learn), the server's list has its own host alone. */
static int serve_know_itself(struct server *s, const struct context *job)
{
	s->hosts = serve_new_hosts(s, job, 1);
	if (!s->hosts)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a list of hosts");
	s->hosts->nhosts = 1;
	serve_fill_host(job->bootstrap, job->rank, &s->share, s->hosts->host);
	s->hosts->host[0].ranks = s->nserved;
	return COLL_SUCCESS;
}

static int serve_listen(struct server *s, const struct context *job)
{
	struct address_list addresses;
	int code = listeners_open(config_string(job->config, "interface"),
				  (uint16_t)config_int(job->config, "watch_port"),
				  &s->acceptor.listeners, &addresses);

	if (code)
		return code;
	serve_put_addresses(&addresses, &s->share);
	code = random_bytes(s->acceptor.salt, sizeof(s->acceptor.salt));
	return code ? code : acceptor_begin(&s->acceptor);
}

static struct server *serve_new(const struct context *job)
{
	struct server *s = calloc(1, sizeof(*s));
	uint8_t key[BOOTSTRAP_KEY_SIZE], look[HANDSHAKE_KEY_SIZE];

	if (!s)
		return NULL;
	s->refs = 1;
	bootstrap_key(job->bootstrap, key);
	serve_look_key(key, look);
	serve_make_keys(look, &s->keys);
	serve_handshake(&s->hs, SERVE_SERVER, &s->keys);
	s->hs.log = serve_log;
	s->job = context_job(job);
	s->about = config_log_about(job->config, LOG_SUBSYSTEM);
	s->acceptor.hs = &s->hs;
	s->acceptor.many = 1;
	s->acceptor.connected = serve_connected;
	s->acceptor.owner = s;
	s->clients.rank = (uint32_t)job->rank;
	s->clients.keys = &s->keys;
	s->clients.answer = serve_answer;
	s->clients.owner = s;
	clients_begin(&s->clients);
	poll_set_init_small(&s->set, s->fds, SERVE_POLLS);
	s->acceptor.set = &s->set;
	s->wake_fd = s->wake_place = -1;
	for (int i = 0; i < PAGE_DIRECTORIES; i++)
		s->directory[i] = -1;
	return s;
}

static int serve_start(struct server *s, const struct context *job)
{
	int failed, code = serve_list_ranks(s, job);

	if (!code)
		code = serve_listen(s, job);
	if (!code)
		code = serve_know_itself(s, job);
	if (code)
		return code;
	serve_open_directories(s);
	s->wake_fd = descriptor_lift(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	failed = s->wake_fd < 0 ? errno : thread_start(&s->thread, serve_run, s);
	return failed ? error_set(COLL_ERR_SYSTEM, "cannot start its thread: %s%s",
				  strerror(failed), thread_advice(failed))
		      : COLL_SUCCESS;
}

/* --------------------------------------------------------------------------- forks -- */

static void serve_fork_lock(void)
{
	pthread_mutex_lock(&serve_lock);
	pthread_mutex_lock(&serve_work);
}

static void serve_fork_unlock(void)
{
	pthread_mutex_unlock(&serve_work);
	pthread_mutex_unlock(&serve_lock);
}

/*
 * The threads do not exist in the child, and the parent's ports are not its own.  Nothing is logged, since another thread of the
 * parent may have had the locks of the log.
 */
static void serve_forked(void)
{
	struct server *s;

	while ((s = servers)) {
		servers = s->next;
		serve_handshake(&s->hs, SERVE_SERVER, &s->keys);
		serve_close(s);
	}
	serve_fork_unlock();
}

static void serve_register_fork(void)
{
	pthread_atfork(serve_fork_lock, serve_fork_unlock, serve_forked);
}

static void serve_watch_forks(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, serve_register_fork);
}

/* ---------------------------------------------------------------------- a rank's part -- */

/* The server of the rank, or NULL.  The caller holds serve_lock. */
static struct server *serve_find(const struct context *job)
{
	const uint64_t number = context_job(job);
	struct server *s = servers;

	while (s && (s->stop || s->job != number || s->served[0].rank != job->rank))
		s = s->next;
	return s;
}

/* Starts the server and adds it to the list: a fork in another thread finds it there whole, or not at all. */
static int serve_add(struct server *s, const struct context *job)
{
	int code;

	serve_watch_forks();
	pthread_mutex_lock(&serve_lock);
	code = serve_start(s, job);
	if (!code) {
		s->next = servers;
		servers = s;
	}
	pthread_mutex_unlock(&serve_lock);
	return code;
}

/* Returns why tools on other hosts cannot look at the job, or NULL: they can. */
static const char *serve_objection(const struct lane *lane)
{
	if (!bootstrap_key_is_secret(lane->context->bootstrap))
		return "the ranks have no secret key, so that others could look: set COLL_KEY";
	return lane->page ? NULL : "it keeps no page (option page)";
}

/* The page tells tools of this user and host with which key they can look, and where. */
static void serve_note_in_page(const struct lane *lane, const struct server *s)
{
	struct page_head *head = page_head(lane->page);
	struct address_list addresses;
	uint8_t key[BOOTSTRAP_KEY_SIZE];

	bootstrap_key(lane->context->bootstrap, key);
	serve_look_key(key, head->look_key);
	if (!s)
		return;
	serve_get_addresses(&s->share, &addresses);
	if (!addresses.count)
		return;
	address_format(&addresses.item[0], head->look_at);
	context_log(lane->context, COLL_LOG_INFO, "rank %d shows %d rank%s to coll top --job %s",
		    lane->context->rank, s->nserved, s->nserved > 1 ? "s" : "", head->look_at);
}

/* The first lane of a job. */
static void serve_begin_job(struct lane *lane)
{
	const struct context *job = lane->context;
	const char *objection = serve_objection(lane);
	const int serves = serve_is_lowest(job);
	struct server *s = serves && !objection ? serve_new(job) : NULL;

	if (s && serve_add(s, job)) {
		serve_close(s);
		s = NULL;
		objection = error_text();
	}
	lane->server = s;
	if (serves && !s)
		context_log(job, COLL_LOG_WARN,
			    "rank %d does not show the ranks of its host (option watch): %s",
			    job->rank, objection ? objection : "no memory for it");
	if (lane->page && bootstrap_key_is_secret(job->bootstrap))
		serve_note_in_page(lane, s);
}

int serve_begin(struct lane *lane)
{
	CANCEL_OFF;
	const struct context *context = lane->context;

	if (!traffic_of(context)->selection.watch)
		return COLL_SUCCESS;
	if (!context->lanes && context->plugins) {
		serve_begin_job(lane);
		return COLL_SUCCESS;
	}
	pthread_mutex_lock(&serve_lock);
	lane->server = serve_find(context_first(context));
	if (lane->server)
		lane->server->refs++;
	pthread_mutex_unlock(&serve_lock);
	return COLL_SUCCESS;
}

/* The caller holds serve_lock. */
static void serve_unlink(const struct server *s)
{
	struct server **at = &servers;

	while (*at && *at != s)
		at = &(*at)->next;
	if (*at)
		*at = s->next;
}

void serve_free(struct lane *lane)
{
	CANCEL_OFF;
	struct server *s = lane->server;
	const uint64_t one = 1;
	int over;
	ssize_t n;

	lane->server = NULL;
	if (!s)
		return;
	pthread_mutex_lock(&serve_lock);
	over = !--s->refs;
	if (over) {
		s->stop = 1;
		n = write(s->wake_fd, &one, sizeof(one));
		(void)n; /* if the write has failed, the thread wakes within SERVE_BEAT_MS */
	}
	pthread_mutex_unlock(&serve_lock);
	if (!over)
		return;
	pthread_join(s->thread, NULL);
	/* Until here the server is in the list, where a fork finds its sockets. */
	pthread_mutex_lock(&serve_lock);
	serve_unlink(s);
	serve_close(s);
	pthread_mutex_unlock(&serve_lock);
}

/* ------------------------------------------------------------------------ all ranks -- */

static void serve_learn(const struct context *job, const struct serve_share *shares)
{
	struct serve_hosts *hosts;
	struct server *s;

	pthread_mutex_lock(&serve_lock);
	s = serve_find(job);
	hosts = s ? serve_list_hosts(s, job, shares) : NULL;
	pthread_mutex_lock(&serve_work);
	if (hosts) {
		free(s->hosts);
		s->hosts = hosts;
	}
	if (s) /* the other ranks of this host have made their directories by now */
		serve_open_directories(s);
	pthread_mutex_unlock(&serve_work);
	pthread_mutex_unlock(&serve_lock);
}

/* Where this rank listens; zeros: it does not. */
static struct serve_share serve_own_share(const struct context *job)
{
	struct serve_share share = {.count = 0};
	const struct server *s;

	pthread_mutex_lock(&serve_lock);
	s = serve_find(job);
	if (s)
		share = s->share;
	pthread_mutex_unlock(&serve_lock);
	return share;
}

int serve_all_ok(struct context *context, int code, int64_t timeout_ms)
{
	struct bootstrap *bootstrap = context->bootstrap;
	struct serve_share own, *all;

	if (code || !traffic_of(context)->selection.watch)
		return bootstrap_all_ok(bootstrap, code, timeout_ms);
	all = calloc((size_t)context->nranks, sizeof(*all));
	if (!all)
		return bootstrap_exchange_fail(bootstrap, COLL_ERR_NO_MEMORY,
					       "no memory for a list of hosts", timeout_ms);
	own = serve_own_share(context);
	code = bootstrap_exchange(bootstrap, &own, all, sizeof(own), timeout_ms);
	if (!code)
		serve_learn(context, all);
	free(all);
	return code;
}
