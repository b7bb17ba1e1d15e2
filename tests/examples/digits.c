/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * digits.c - data-parallel training: a small neural network learns to read handwritten digits.
 *
 *   coll run -n 4 digits        one process per rank
 *   digits --in-process 4       all ranks are threads of this process
 *   digits --data DIR ...       the directory of the two files in examples/data
 *   digits --steps 20 ...       a shorter training, of fewer batches
 *   digits --memory device ...  the gradients are added up in memory of a CUDA device
 *
 * Every rank holds the same network and computes the gradient on its share of each batch; one
 * allreduce adds up the gradients.  So all ranks take the same steps, equal to the last bit.  The counters lie in host
 * memory, also where the gradients lie on a device: one communicator serves both.
 */
#include "device.h"

#include <coll/coll.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 14 * 14, HIDDEN = 64, CLASSES = 10 };
enum { DIGITS = 2000, TRAIN = 1600, BATCH = 160, STEPS = 200, MAX_RANKS = 64 };

/* All weights are one array of floats, so that one call adds up all gradients. */
struct network {
	float w1[HIDDEN][PIXELS], b1[HIDDEN], w2[CLASSES][HIDDEN], b2[CLASSES];
};

enum { WEIGHTS = sizeof(struct network) / sizeof(float) };

static unsigned char images[DIGITS][PIXELS], labels[DIGITS];
static int steps = STEPS, on_device;

/* Prints the library's message about the failed call and ends the program. */
static void check(int failed, const char *what)
{
	if (!failed)
		return;
	fprintf(stderr, "digits: %s failed: %s\n", what, coll_get_last_error(NULL));
	exit(1);
}

/* Reads the data after the header of an idx file. */
static void read_file(const char *dir, const char *name, long header, void *data, size_t size)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "rb");
	check(!file || fseek(file, header, SEEK_SET) || fread(data, 1, size, file) != size, path);
	fclose(file);
}

/* The network's result for a picture: the hidden layer, and the probability of each digit. */
static void forward(const struct network *net, int i, float *hidden, float *prob)
{
	float sum = 0;

	for (int h = 0; h < HIDDEN; h++) {
		float a = 255 * net->b1[h];

		for (int p = 0; p < PIXELS; p++)
			a += net->w1[h][p] * images[i][p];
		hidden[h] = a > 0 ? a / 255 : 0;
	}
	for (int c = 0; c < CLASSES; c++) {
		float a = net->b2[c];

		for (int h = 0; h < HIDDEN; h++)
			a += net->w2[c][h] * hidden[h];
		prob[c] = expf(a < 80 ? a : 80);
		sum += prob[c];
	}
	for (int c = 0; c < CLASSES; c++)
		prob[c] /= sum;
}

/* Adds one picture's part of the gradient. */
static void backward(const struct network *net, int i, struct network *grad)
{
	float hidden[HIDDEN], delta[CLASSES];

	forward(net, i, hidden, delta);
	delta[labels[i]] -= 1;
	for (int c = 0; c < CLASSES; c++)
		grad->b2[c] += delta[c];
	for (int h = 0; h < HIDDEN; h++) {
		float d = 0;

		for (int c = 0; c < CLASSES; c++) {
			grad->w2[c][h] += delta[c] * hidden[h];
			d += hidden[h] > 0 ? delta[c] * net->w2[c][h] : 0;
		}
		grad->b1[h] += d;
		for (int p = 0; p < PIXELS; p++)
			grad->w1[h][p] += d / 255 * images[i][p];
	}
}

/* Adds up the gradients of all ranks, by way of `there`, memory of a device, if that is not NULL. */
static void add_up(float *g, void *there, coll_comm_t comm)
{
	void *buf = there ? there : g;

	if (there)
		device_copy(there, g, sizeof(struct network));
	check(coll_allreduce(buf, buf, WEIGHTS, COLL_FLOAT32, COLL_SUM, comm, NULL) ||
		      coll_sync(comm),
	      "adding up the gradients");
	if (there)
		device_copy(g, there, sizeof(struct network));
}

static void train(struct network *net, coll_comm_t comm, int rank, int nranks)
{
	struct network grad, speed = {0};
	float *w = (float *)net, *g = (float *)&grad, *v = (float *)&speed;
	void *there = on_device ? device_alloc(sizeof(grad)) : NULL;
	uint32_t random = 1; /* the same on all ranks */

	for (int i = 0; i < WEIGHTS; i++) {
		random = random * 1664525 + 1013904223;
		w[i] = ((float)(random >> 8) / (1 << 24) - 0.5f) * 0.3f;
	}
	for (int step = 0; step < steps; step++) {
		memset(&grad, 0, sizeof(grad));
		for (int i = BATCH * rank / nranks; i < BATCH * (rank + 1) / nranks; i++)
			backward(net, step * BATCH % TRAIN + i, &grad);

		add_up(g, there, comm);
		for (int i = 0; i < WEIGHTS; i++) {
			v[i] = 0.9f * v[i] - 0.3f / BATCH * g[i];
			w[i] += v[i];
		}
	}
	if (there)
		device_free(there);
}

/*
 * Returns how many digits of this rank's share of the test digits the network reads right; no rank
 * was trained on them.
 */
static int32_t count_right(const struct network *net, int rank, int nranks)
{
	float hidden[HIDDEN], prob[CLASSES];
	int32_t right = 0;

	for (int i = TRAIN + rank; i < DIGITS; i += nranks) {
		int best = 0;

		forward(net, i, hidden, prob);
		for (int c = 1; c < CLASSES; c++)
			best = prob[c] > prob[best] ? c : best;
		right += best == labels[i];
	}
	return right;
}

/* FNV-1a over the bits of all weights. */
static uint64_t hash_weights(const struct network *net)
{
	uint64_t hash = 14695981039346656037u;

	for (size_t i = 0; i < sizeof(*net); i++)
		hash = (hash ^ ((const unsigned char *)net)[i]) * 1099511628211u;
	return hash;
}

static void *run_rank(void *arg)
{
	coll_comm_t comm = arg;
	struct network net;
	uint64_t hash, hashes[MAX_RANKS];
	int32_t rank, nranks = 0, right;
	const char *backend;

	check(coll_comm_user_rank(comm, &rank) || coll_comm_count(comm, &nranks) ||
		      coll_comm_backend(comm, &backend) || nranks > MAX_RANKS,
	      "asking for at most 64 ranks");
	if (on_device)
		device_use(rank);
	train(&net, comm, rank, nranks);

	right = count_right(&net, rank, nranks);
	hash = hash_weights(&net);
	check(coll_allreduce(&right, &right, 1, COLL_INT32, COLL_SUM, comm, NULL) ||
		      coll_allgather(&hash, hashes, 1, COLL_UINT64, comm, NULL) || coll_sync(comm),
	      "gathering the results");
	for (int r = 0; r < nranks; r++)
		check(hashes[r] != hash, "comparing the weights of all ranks, bit by bit,");
	if (rank == 0)
		printf("held-out accuracy %.4f on %d digits, %d ranks, backend %s, weights %jx\n",
		       (double)right / (DIGITS - TRAIN), DIGITS - TRAIN, nranks, backend,
		       (uintmax_t)hash);
	check(coll_comm_destroy(comm), "destroying the communicator");
	return NULL;
}

int main(int argc, char **argv)
{
	const char *data = DIGITS_DATA;
	int in_process = 0, nthreads = 1;
	coll_comm_t comms[MAX_RANKS];
	pthread_t threads[MAX_RANKS];

	for (int i = 1; i + 1 < argc; i += 2)
		if (!strcmp(argv[i], "--data"))
			data = argv[i + 1];
		else if (!strcmp(argv[i], "--steps"))
			steps = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--memory"))
			on_device = !strcmp(argv[i + 1], "device");
		else if (!strcmp(argv[i], "--in-process"))
			in_process = nthreads = atoi(argv[i + 1]);
	check(nthreads < 1 || nthreads > MAX_RANKS, "--in-process RANKS (1 to 64)");
	if (on_device)
		device_open();
	read_file(data, "digits-images.idx3-ubyte", 16, images, sizeof(images));
	read_file(data, "digits-labels.idx1-ubyte", 8, labels, sizeof(labels));
	if (in_process)
		check(coll_comm_init_all(comms, nthreads, NULL, NULL), "making communicators");
	else
		check(coll_comm_init_env(comms, NULL), "making the communicator");
	for (int r = 0; r < nthreads; r++)
		check(pthread_create(&threads[r], NULL, run_rank, comms[r]), "starting a thread");
	for (int r = 0; r < nthreads; r++)
		pthread_join(threads[r], NULL);
	return 0;
}
