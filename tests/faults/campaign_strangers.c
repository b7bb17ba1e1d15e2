/* SPDX-License-Identifier: BSD-3-Clause */
/* campaign_strangers.c - processes outside the job connect to each of its listening sockets. */
#include "campaign.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

enum { PORTS_MAX = 64, HELD = 32, KINDS = 12, BYTES = 65536, LOOK_EVERY = 500 };

/* ------------------------------------------------------------------- listening ports -- */

struct ports {
	struct sockaddr_in at[PORTS_MAX];
	int n, most; /* now; the most at one time */
};

/* Does the process have the socket open? */
static int port_is_of(pid_t pid, unsigned long inode)
{
	char path[64], want[64], link[64];
	struct dirent *entry;
	int found = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	snprintf(want, sizeof(want), "socket:[%lu]", inode);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);

		link[n > 0 ? n : 0] = '\0';
		found = !strcmp(link, want);
	}
	if (dir)
		closedir(dir);
	return found;
}

static void ports_add(struct ports *p, const pid_t *pids, const char *table)
{
	FILE *f = fopen(table, "r");
	unsigned port, state;
	unsigned long inode;
	char line[512], address[40];

	while (f && fgets(line, sizeof(line), f)) {
		struct sockaddr_in at = {.sin_family = AF_INET};

		if (sscanf(line, "%*d: %39[0-9A-F]:%x %*s %x %*s %*s %*s %*d %*d %lu", address,
			   &port, &state, &inode) != 4 ||
		    state != 10 /* TCP_LISTEN */)
			continue;
		at.sin_port = htons((uint16_t)port);
		if (strlen(address) == 8)
			at.sin_addr.s_addr = (in_addr_t)strtoul(address, NULL, 16);
		if (!at.sin_addr.s_addr) /* any address */
			at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		for (int r = 0; r < NRANKS && p->n < PORTS_MAX; r++)
			if (pids[r] > 0 && port_is_of(pids[r], inode)) {
				p->at[p->n++] = at;
				break;
			}
	}
	if (f)
		fclose(f);
}

static void ports_find(struct ports *p, const pid_t *pids)
{
	p->n = 0;
	ports_add(p, pids, "/proc/net/tcp");
	ports_add(p, pids, "/proc/net/tcp6");
	if (p->n > p->most)
		p->most = p->n;
}

/* ----------------------------------------------------------------------- a stranger -- */

/* Some strangers stay connected for a while. */
static int held[HELD];

static void stranger_hold(int fd, int number)
{
	int *place = &held[number / KINDS % HELD];

	if (*place > 0)
		close(*place);
	*place = fd;
}

static void stranger_send(int fd, const void *bytes, size_t n)
{
	send(fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Reads the other end's first message for a moment, up to size bytes. */
static size_t stranger_read(int fd, void *bytes, size_t size)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	ssize_t n = 0;

	if (poll(&p, 1, 2) == 1)
		n = recv(fd, bytes, size, MSG_DONTWAIT);
	return n > 0 ? (size_t)n : 0;
}

/* Answers with the rank's own first message, of which `change` changes one byte. */
static void stranger_echo(int fd, unsigned char *bytes, unsigned *seed, int change)
{
	size_t n = stranger_read(fd, bytes, BYTES);

	if (change && n)
		bytes[(size_t)rand_r(seed) % n] ^= (unsigned char)(1 + rand_r(seed) % 255);
	stranger_send(fd, bytes, n);
	stranger_send(fd, bytes, n);
}

static void stranger_reset(int fd)
{
	const struct linger linger = {1, 0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

static void stranger_speak(int fd, int kind, unsigned *seed)
{
	static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
	static const char tls[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
	static unsigned char bytes[BYTES];

	for (size_t i = 0; i < 4096; i++)
		bytes[i] = kind == 6 ? 0 : (unsigned char)rand_r(seed);
	switch (kind) {
	case 0: break; /* connects and leaves */
	case 1: stranger_send(fd, bytes, 1); break;
	case 2: stranger_send(fd, bytes, 16); break;
	case 3: stranger_send(fd, bytes, 4096); break;
	case 4: stranger_send(fd, http, sizeof(http) - 1); break;
	case 5: stranger_send(fd, tls, sizeof(tls) - 1); break;
	case 6: stranger_send(fd, bytes, 4096); break; /* zeros */
	case 7: stranger_echo(fd, bytes, seed, 0); break;
	case 8: stranger_echo(fd, bytes, seed, 1); break;
	case 9: stranger_reset(fd); break;
	case 10: shutdown(fd, SHUT_WR); break; /* then stays */
	default: break;                        /* stays and is silent */
	}
}

/* Returns 1 if the stranger was let in as far as a connection. */
static int stranger(const struct sockaddr_in *to, int number, unsigned *seed)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	int error = 0, kind = number % KINDS;
	socklen_t size = sizeof(error);

	if (fd < 0)
		return 0;
	if ((connect(fd, (const void *)to, sizeof(*to)) && errno != EINPROGRESS) ||
	    poll(&p, 1, 100) != 1 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) || error) {
		close(fd);
		return 0;
	}
	stranger_speak(fd, kind, seed);
	if (kind >= 10)
		stranger_hold(fd, number);
	else
		close(fd);
	return 1;
}

/* --------------------------------------------------------------------------- the job -- */

static void act_job(struct rank *r, struct trial *trial, struct report *report)
{
	if (campaign_init(r, trial, report))
		campaign_report(report, campaign_sums(r, r->comm, NRANKS, report, &trial->stop));
}

static const struct scene job = {.name = "strangers", .act = act_job};

static pid_t job_start(struct trial *trial, const char *plugin, int rank)
{
	pid_t pid = fork();

	if (pid == 0)
		campaign_rank(&job, trial, plugin, rank);
	if (pid < 0)
		bail_out("cannot fork: %s", strerror(errno));
	return pid;
}

static int job_phase(struct trial *trial, int phase, int ranks)
{
	double deadline = ranks_now() + 60;
	int come;

	do {
		come = atomic_load(&trial->shared.has_id);
		for (int r = 0; r < ranks; r++)
			come = come && atomic_load(&trial->report[r].phase) >= phase;
		ranks_sleep(0.001);
	} while (!come && ranks_now() < deadline);
	return come;
}

static int job_send_strangers(const pid_t *pids, struct ports *ports, int n, unsigned seed)
{
	int let_in = 0;

	for (int i = 0; i < n; i++) {
		if (i % LOOK_EVERY == 0)
			ports_find(ports, pids);
		if (!ports->n)
			break;
		let_in += stranger(&ports->at[i / KINDS % ports->n], i, &seed);
	}
	return let_in;
}

/* Prints a line for each rank that did not work to its end. */
static int job_judge(struct trial *trial, const char *name, const char *backend, const pid_t *pids)
{
	double deadline = ranks_now() + 30;
	int status, misses = 0;

	for (int r = 0; r < NRANKS; r++) {
		const struct report *report = &trial->report[r];
		int ended = ranks_reap(pids[r], deadline, &status);

		if (ended && !status && atomic_load(&report->phase) == PHASE_DONE &&
		    !report->code && !report->wrong[0])
			continue;
		misses++;
		printf("miss|%s|%s|rank %d: %s, status %#x, code %d|%s|%s%s\n", name, backend, r,
		       ended ? "ended" : "hangs", (unsigned)status, report->code, report->text,
		       report->wrong, trial->shared.failure[r]);
	}
	return misses;
}

int campaign_strangers(struct trial *trial, const char *backend, const char *plugin, int starting,
		       int n, unsigned seed)
{
	const char *name = starting ? "strangers-start" : "strangers-run";
	int first = starting ? NRANKS - 1 : NRANKS, let_in, misses;
	struct ports ports = {.n = 0};
	pid_t pids[NRANKS] = {0};
	double begin;

	trial->init_timeout_ms = 600000;
	fflush(stdout);
	for (int r = 0; r < first; r++)
		pids[r] = job_start(trial, plugin, r);
	if (!job_phase(trial, starting ? PHASE_BEGUN : PHASE_LOOPING, first))
		printf("miss|%s|%s|the job did not begin||\n", name, backend);
	ranks_sleep(0.1);
	begin = ranks_now();
	let_in = job_send_strangers(pids, &ports, n, seed);
	begin = ranks_now() - begin;
	for (int r = first; r < NRANKS; r++)
		pids[r] = job_start(trial, plugin, r);
	job_phase(trial, PHASE_LOOPING, NRANKS);
	atomic_store(&trial->stop, 1);
	misses = job_judge(trial, name, backend, pids);
	printf("row|%s|%s|%d|%d|%d|%.1f|%d\n", name, backend, ports.most ? n : 0, let_in,
	       ports.most, begin, misses);
	return misses;
}
