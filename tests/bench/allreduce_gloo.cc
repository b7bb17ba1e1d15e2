/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * allreduce_gloo.cc - the same loop as allreduce_coll.c over Gloo's TCP transport.
 *
 *   coll run -n 2 -- allreduce_gloo ring|bcube EMPTY-DIRECTORY
 */
#include <cstring>
#include <memory>
#include <string>

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include "bench.h"

/* Chooses among overloads. */
typedef void (*reduce_fn)(void *, const void *, const void *, size_t);

static gloo::AllreduceOptions::Algorithm algorithm;

/* One barrier, one allreduce: microseconds of the second. */
static double measure(const std::shared_ptr<gloo::Context> &context, float *in, float *out,
		      size_t count)
{
	gloo::BarrierOptions barrier(context);
	gloo::AllreduceOptions options(context);
	double begun;

	options.setAlgorithm(algorithm);
	options.setInput(in, count);
	options.setOutput(out, count);
	options.setReduceFunction(static_cast<reduce_fn>(&gloo::sum<float>));
	gloo::barrier(barrier);
	begun = bench_now();
	gloo::allreduce(options);
	return bench_now() - begun;
}

static double slowest(const std::shared_ptr<gloo::Context> &context, double took)
{
	gloo::AllreduceOptions options(context);
	double most = took;

	options.setInput(&took, 1);
	options.setOutput(&most, 1);
	options.setReduceFunction(static_cast<reduce_fn>(&gloo::max<double>));
	gloo::allreduce(options);
	return most;
}

int main(int argc, char **argv)
{
	const char *rank_text = getenv("COLL_RANK"), *size_text = getenv("COLL_WORLD_SIZE");
	double times[BENCH_MOST];

	if (argc != 3 || !rank_text || !size_text) {
		fprintf(stderr, "usage: coll run -n N -- allreduce_gloo ring|bcube DIRECTORY\n");
		return 2;
	}
	algorithm = strcmp(argv[1], "ring") ? gloo::AllreduceOptions::Algorithm::BCUBE
					    : gloo::AllreduceOptions::Algorithm::RING;
	int rank = atoi(rank_text), nranks = atoi(size_text);
	gloo::transport::tcp::attr attr;
	attr.hostname = "127.0.0.1";
	gloo::rendezvous::FileStore store(argv[2]);
	auto context = std::make_shared<gloo::rendezvous::Context>(rank, nranks);
	auto device = gloo::transport::tcp::CreateDevice(attr);
	context->connectFullMesh(store, device);

	float *in = bench_buffer(rank), *out = bench_buffer(rank);
	for (size_t bytes = BENCH_MIN; bytes <= BENCH_MAX; bytes *= 2) {
		int n = bench_iterations(bytes);
		size_t count = bytes / sizeof(*in);

		for (int i = -BENCH_WARM; i < n; i++) {
			double took = slowest(context, measure(context, in, out, count));

			if (i >= 0)
				times[i] = took;
		}
		bench_check(out, count, (float)(nranks * (nranks + 1) / 2));
		bench_print(rank, bytes, times, n);
	}
	free(in);
	free(out);
	return 0;
}
