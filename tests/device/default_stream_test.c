/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * default_stream_test.c - the default streams (handles 1 and 2) as streams of calls over backends with a transport: one
 * thread drives the ranks of several devices, and the device of each communicator decides which stream is meant.
 */
#include "../lib/device_harness.h"

enum { DEVICES = 3, LATE_US = 20000 };

static const struct {
	void *handle;
	const char *name;
} streams[] = {{CU_STREAM_LEGACY, "the legacy default streams"},
	       {CU_STREAM_PER_THREAD, "the per-thread default streams"}};

/* The ranks of a group that one thread drives; rank i works on device on[i]. */
struct drive {
	struct rank *r; /* for what fails */
	void *stream;
	int on[DEVICES];
	int all_current; /* each call is made with the context of its device */
	coll_comm_t comm[DEVICES];
	int64_t *x[DEVICES]; /* on the device, or the host */
	int on_host;
};

/* ----------------------------------------------------------------------- kernels -- */

/* Work on a device that writes a number late, or reads one. */
struct kernel {
	int64_t *there, value;
};

static int64_t *kernel_at(const struct kernel *k)
{
	void *at = standin_touch(k->there, sizeof(*k->there));

	return at ? at : k->there;
}

static int kernel_write(void *arg)
{
	struct kernel *k = arg;

	ranks_sleep(LATE_US * 1e-6);
	*kernel_at(k) = k->value;
	return 0;
}

static int kernel_read(void *arg)
{
	struct kernel *k = arg;

	k->value = *kernel_at(k);
	return 0;
}

static void finish(int device, void *stream)
{
	context_begin(device);
	if (cuStreamSynchronize(stream))
		bail_out("device %d has failed", device);
	context_end(device);
}

/* ------------------------------------------------------------------------ driving -- */

static int drive_begin(struct drive *d, const char *backend, const int32_t *devices)
{
	coll_config_t config;

	ranks_config(&config, backend);
	for (int i = 0; i < DEVICES; i++)
		d->x[i] = d->on_host ? calloc(1, sizeof(*d->x[i]))
				     : device_new(d->on[i], sizeof(*d->x[i]), 0);
	return rank_did(d->r, coll_comm_init_all(d->comm, DEVICES, devices, &config), "init_all");
}

static void drive_end(struct drive *d)
{
	for (int i = 0; i < DEVICES; i++) {
		if (d->comm[i])
			rank_did(d->r, coll_comm_destroy(d->comm[i]), "destroy");
		if (d->on_host)
			free(d->x[i]);
		else
			device_free(d->on[i], d->x[i]);
	}
}

static void drive_call(struct drive *d, int i)
{
	if (d->all_current)
		context_begin(d->on[i]);
	rank_did(d->r,
		 coll_allreduce(d->x[i], d->x[i], 1, COLL_INT64, COLL_SUM, d->comm[i], d->stream),
		 "allreduce");
	if (d->all_current)
		context_end(d->on[i]);
}

/* A group with a call of each rank, after late work of each device, and before work that reads the sum. */
static void drive_once(struct drive *d, int64_t begin)
{
	struct kernel in[DEVICES], out[DEVICES];

	for (int i = 0; i < DEVICES; i++) {
		in[i] = (struct kernel){d->x[i], begin + i};
		out[i] = (struct kernel){d->x[i], 0};
		device_launch(d->on[i], d->stream, kernel_write, &in[i]);
	}
	rank_did(d->r, coll_group_start(), "group");
	for (int i = 0; i < DEVICES; i++)
		drive_call(d, i);
	rank_did(d->r, coll_group_end(), "group");
	for (int i = 0; i < DEVICES; i++)
		device_launch(d->on[i], d->stream, kernel_read, &out[i]);
	for (int i = 0; i < DEVICES; i++) {
		finish(d->on[i], d->stream);
		if (out[i].value != DEVICES * begin + DEVICES * (DEVICES - 1) / 2)
			rank_fail(d->r, "rank %d: its stream found %lld", i,
				  (long long)out[i].value);
	}
}

/* An event of each rank's default stream, and one for which the stream waits. */
static void drive_events(struct drive *d)
{
	for (int i = 0; i < DEVICES && !d->r->failure[0]; i++) {
		struct kernel in = {d->x[i], 100 + i}, out = {d->x[i], 0};
		coll_event_t event = NULL;

		rank_did(d->r, coll_event_create(d->comm[i], &event), "create");
		device_launch(d->on[i], d->stream, kernel_write, &in);
		rank_did(d->r, coll_event_record_on_stream(event, d->comm[i], d->stream), "record");
		rank_did(d->r, coll_event_synchronize(event), "synchronize");
		device_launch(d->on[i], CU_STREAM_LEGACY, kernel_read, &out);
		finish(d->on[i], CU_STREAM_LEGACY);
		if (out.value != 100 + i)
			rank_fail(d->r, "rank %d: the event came before %lld", i,
				  (long long)in.value);
		rank_did(d->r, coll_event_destroy(event), "destroy");
	}
}

/* --------------------------------------------------------------------------- tests -- */

static const struct variant {
	const char *name;
	int on[DEVICES];
	int named;       /* the program names the devices */
	int all_current; /* each call has the context of its device */
	int on_host;
} variants[] = {
	{"each call on its device", {0, 1, 2}, 0, 1, 0},
	{"named devices", {2, 0, 1}, 1, 0, 0},
	{"named devices, host memory", {1, 2, 0}, 1, 0, 1},
	{"the device of the buffers", {2, 1, 0}, 0, 0, 0},
	{"host memory, each call on its device", {1, 0, 2}, 0, 1, 1},
	{"one device", {1, 1, 1}, 1, 0, 0},
};
enum { VARIANTS = sizeof(variants) / sizeof(variants[0]) };

static void test_variant(const char *backend, const struct variant *v, size_t s)
{
	char *failure = ranks_memory(RANKS_TEXT);
	struct rank r = {.nranks = DEVICES, .failure = failure};
	struct drive d = {.r = &r,
			  .stream = streams[s].handle,
			  .on = {v->on[0], v->on[1], v->on[2]},
			  .all_current = v->all_current,
			  .on_host = v->on_host};
	const int32_t devices[DEVICES] = {v->on[0], v->on[1], v->on[2]};

	/* A context is current that is none of rank 0's device. */
	context_begin(v->on[1]);
	if (drive_begin(&d, backend, v->named ? devices : NULL))
		for (int i = 0; i < 3 && !failure[0]; i++)
			drive_once(&d, 1 + i);
	if (v->named && !failure[0])
		drive_events(&d);
	drive_end(&d);
	context_end(v->on[1]);
	ok(!failure[0], "%s, %s: %s", backend, streams[s].name, v->name);
	if (failure[0])
		diag("%s", failure);
	munmap(failure, RANKS_TEXT);
}

int main(void)
{
	const char *backends[] = {"tcp", "simulated", "ucx"};
	void *context;

	device_begin();
	setenv("COLL_TIMEOUT", "5s", 1);
	setenv("COLL_ENABLE_GPU_FALLBACK", "1", 1);
	setenv("STANDIN_CUDA_DEVICES", "3", 1);
	if (!ranks_can("ucx"))
		backends[2] = NULL;
	device_init();
	if (cuDevicePrimaryCtxRetain(&context, 2))
		bail_out("no context");
	for (int b = 0; b < 3 && backends[b]; b++)
		for (size_t s = 0; s < 2; s++)
			for (size_t v = 0; v < VARIANTS; v++)
				test_variant(backends[b], &variants[v], s);
	device_end();
	is_int(standin_held(2), 1, "nor device 2");
	return done_testing();
}
