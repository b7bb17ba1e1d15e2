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
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include "bench.h"

/* Selects one overload of the function. */
typedef void (*reduce_fn)(void *, const void *, const void *, size_t);

static std::shared_ptr<gloo::rendezvous::Context> context;
static gloo::AllreduceOptions::Algorithm algorithm;

static void sum(const float *in, float *out, size_t count)
{
	gloo::AllreduceOptions options(context);

	options.setAlgorithm(algorithm);
	options.setInput(const_cast<float *>(in), count);
	options.setOutput(out, count);
	options.setReduceFunction(static_cast<reduce_fn>(&gloo::sum<float>));
	gloo::allreduce(options);
}

static double slowest(double took)
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

	if (argc != 3 || !rank_text || !size_text) {
		fprintf(stderr, "usage: coll run -n N -- allreduce_gloo ring|bcube DIRECTORY\n");
		return 2;
	}
	algorithm = strcmp(argv[1], "ring") ? gloo::AllreduceOptions::Algorithm::BCUBE
					    : gloo::AllreduceOptions::Algorithm::RING;
	bench_program program = {atoi(rank_text), atoi(size_text), sum, slowest};
	gloo::transport::tcp::attr attr;
	attr.hostname = "127.0.0.1";
	gloo::rendezvous::FileStore store(argv[2]);
	context = std::make_shared<gloo::rendezvous::Context>(program.rank, program.nranks);
	auto device = gloo::transport::tcp::CreateDevice(attr);
	context->connectFullMesh(store, device);
	bench_all(&program);
	context.reset();
	return 0;
}
