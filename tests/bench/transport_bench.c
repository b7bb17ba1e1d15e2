/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport_bench.c - latency and bandwidth of transport plugins, without the core.
 *
 *   make check TESTS=tests/tcp/record_test && cc -O2 -D_GNU_SOURCE -I$SRC/include \
 *       $SRC/tests/bench/transport_bench.c -o transport_bench tests/lib/.libs/libtests.a -lpthread
 *   transport_bench [-r rounds] [-c text] [plugin.so[:key=value]...] ...
 *
 * Each argument is a variant.  Each round measures every variant once between two processes.  The
 * program prints medians and, because the machine may be shared, their ratios to the first variant.  Without arguments:
 * the tcp plugin of the build tree, over local sockets and over TCP.  -c selects the cases whose name
 * contains that text.
 */
#include "../lib/transport_harness.h"

enum { BENCH_VARIANTS = 16, BENCH_ROUNDS = 64, BENCH_OPTIONS = 8 };

struct bench_variant {
	const char *name;
	const coll_backend_t *backend;
	const char *options[2 * BENCH_OPTIONS + 1];
};

struct bench_case {
	const char *name, *unit;
	uint32_t nranks;
	uint64_t size; /* bytes of a message */
	int count;     /* messages in flight in each direction; 0: one after the other */
	int times;
	int add; /* the receiver adds the message to its buffer */
};

static const struct bench_case bench_cases[] = {
	{"ping-pong 8 B", "us", 2, 8, 0, 4000, 0},
	{"ping-pong 8 KiB", "us", 2, 8 << 10, 0, 2000, 0},
	{"ping-pong 64 KiB", "us", 2, 64 << 10, 0, 1000, 0},
	{"ping-pong 1 MiB", "us", 2, 1 << 20, 0, 200, 0},
	{"4 ranks to all 8 B", "us", 4, 8, 1, 1000, 0},
	{"both ways 64 KiB x 64", "GB/s", 2, 64 << 10, 64, 20, 0},
	{"both ways 1 MiB x 64", "GB/s", 2, 1 << 20, 64, 4, 0},
	{"both ways 128 MiB", "GB/s", 2, 128 << 20, 1, 2, 0},
	{"both ways 1 MiB x 64, added", "GB/s", 2, 1 << 20, 64, 4, 1},
};
enum { BENCH_CASES = sizeof(bench_cases) / sizeof(bench_cases[0]) };

static double bench_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Sends one message back and forth, `times` times. */
static void bench_ping_pong(struct harness *h, const struct bench_case *c, uint8_t *out,
			    uint8_t *in)
{
	struct harness_recv recv = {.peer = 1 - h->host.rank, .buf = in, .size = c->size};
	coll_send_t send;

	for (int i = 0; i < c->times; i++) {
		recv.tag = (uint64_t)i;
		harness_recv(h, &recv);
		if (h->host.rank == 0)
			harness_send(h, &send, 1, (uint64_t)i, out, c->size);
		harness_wait(h, &recv.status);
		if (h->host.rank == 1)
			harness_send(h, &send, 0, (uint64_t)i, out, c->size);
		harness_wait(h, &send.status);
	}
}

/* Exchanges `count` messages with each other rank, all at once, `times` times. */
static void bench_flow(struct harness *h, const struct bench_case *c, uint8_t *out, uint8_t *in)
{
	int others = (int)h->host.nranks - 1, n = c->count * others;
	coll_send_t *send = calloc((size_t)n, sizeof(*send));
	struct harness_recv *recv = calloc((size_t)n, sizeof(*recv));

	for (int t = 0; t < c->times; t++) {
		for (int i = 0; i < n; i++) {
			recv[i] = (struct harness_recv){.tag = (uint64_t)(t * n + i / others),
							.size = c->size,
							.add = c->add};
			recv[i].peer = (h->host.rank + 1 + (uint32_t)(i % others)) % h->host.nranks;
			recv[i].buf = in + (uint64_t)i * c->size;
			harness_recv(h, &recv[i]);
		}
		for (int i = 0; i < n; i++)
			harness_send(h, &send[i], recv[i].peer, (uint64_t)(t * n + i / others),
				     out + (uint64_t)i * c->size, c->size);
		for (int i = 0; i < n; i++) {
			harness_wait(h, &send[i].status);
			harness_wait(h, &recv[i].status);
		}
	}
	free(send);
	free(recv);
}

static int bench_rank(struct harness *h)
{
	const struct bench_case *c = h->job->user;
	uint64_t total = c->size * (uint64_t)(c->count ? c->count : 1) * h->host.nranks;
	uint8_t *out = malloc(total), *in = malloc(total);
	double begin = 0;

	memset(out, 1, total);
	memset(in, 2, total);
	/* The first round is a warm-up. */
	for (int i = 0; i < 2; i++) {
		harness_barrier(h);
		begin = bench_now();
		if (c->count)
			bench_flow(h, c, out, in);
		else
			bench_ping_pong(h, c, out, in);
	}
	begin = bench_now() - begin;
	if (c->unit[0] == 'u')
		begin = begin / c->times / (c->count ? 1 : 2) * 1e6;
	else
		begin = (double)c->size * c->count * c->times / begin / 1e9;
	h->job->shared->number[h->host.rank] = begin;
	free(out);
	free(in);
	return harness_barrier(h);
}

static double bench_once(const struct bench_variant *variant, const struct bench_case *c)
{
	struct harness_job job = {.backend = variant->backend, .nranks = c->nranks};
	double number;

	job.options = variant->options;
	job.run = bench_rank;
	job.user = (void *)(uintptr_t)c;
	if (harness_run(&job)) {
		fprintf(stderr, "transport_bench: %s failed: %s\n", variant->name,
			job.shared->text[0]);
		exit(1);
	}
	number = job.shared->number[0];
	harness_job_free(&job);
	return number;
}

static int bench_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void bench_all(const struct bench_variant *variant, int variants, int rounds,
		      const char *text)
{
	static double number[BENCH_CASES][BENCH_VARIANTS][BENCH_ROUNDS];
	double first = 0;

	for (int r = 0; r < rounds; r++)
		for (int c = 0; c < BENCH_CASES; c++)
			for (int v = 0; strstr(bench_cases[c].name, text) && v < variants; v++)
				number[c][v][r] = bench_once(&variant[v], &bench_cases[c]);
	for (int c = 0; c < BENCH_CASES; c++) {
		if (!strstr(bench_cases[c].name, text))
			continue;
		printf("%-28s %-5s", bench_cases[c].name, bench_cases[c].unit);
		for (int v = 0; v < variants; v++) {
			double *of = number[c][v];

			qsort(of, (size_t)rounds, sizeof(*of), bench_compare);
			first = v ? first : of[rounds / 2];
			printf("  %8.2f (%4.2f)", of[rounds / 2], of[rounds / 2] / first);
		}
		printf("\n");
	}
}

/* Splits "plugin.so:key=value:..." in place. */
static void bench_parse(struct bench_variant *variant, char *text)
{
	int n = 0;
	char *save = NULL, *path = strtok_r(text, ":", &save), *part;
	void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	variant->name = path;
	variant->backend = plugin ? dlsym(plugin, COLL_BACKEND_SYMBOL) : NULL;
	if (!variant->backend) {
		fprintf(stderr, "transport_bench: %s\n", dlerror());
		exit(2);
	}
	while ((part = strtok_r(NULL, ":", &save)) && n < 2 * BENCH_OPTIONS) {
		char *value = strchr(part, '=');

		if (!value) {
			fprintf(stderr, "transport_bench: '%s' is not key=value\n", part);
			exit(2);
		}
		*value = '\0';
		variant->options[n++] = part;
		variant->options[n++] = value + 1;
	}
}

int main(int argc, char **argv)
{
	static struct bench_variant variant[BENCH_VARIANTS];
	int rounds = 5, variants = 0, option;
	const char *text = "";

	while ((option = getopt(argc, argv, "r:c:")) != -1) {
		if (option == 'r')
			rounds = atoi(optarg);
		else if (option == 'c')
			text = optarg;
		else
			rounds = 0;
	}
	if (rounds < 1 || rounds > BENCH_ROUNDS || argc - optind > BENCH_VARIANTS) {
		fprintf(stderr, "usage: transport_bench [-r rounds] [-c text] "
				"[plugin.so[:key=value]...]\n");
		return 2;
	}
	for (int i = optind; i < argc; i++)
		bench_parse(&variant[variants++], argv[i]);
	if (!variants) {
		variants = 2;
		variant[0].backend = variant[1].backend = harness_load("tcp");
		variant[1].options[0] = "unix";
		variant[1].options[1] = "no";
		if (!variant[0].backend)
			return 1;
		printf("local sockets, then TCP (ratio to the first)\n");
	}
	bench_all(variant, variants, rounds, text);
	return 0;
}
