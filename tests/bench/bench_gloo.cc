/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_gloo.cc - Gloo's TCP transport.  Gloo has no reduce_scatter of this form, and no groups: there the calls
 * follow each other.
 *
 *   BENCH_GLOO=EMPTY-DIRECTORY coll run -n 2 -- bench_gloo allreduce 8 1024
 */
#include <memory>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include "bench.h"

/* Selects one overload of the function. */
typedef void (*reduce_fn)(void *, const void *, const void *, size_t);

static std::shared_ptr<gloo::rendezvous::Context> context;

template <typename T> static void allreduce(T *in, T *out, size_t count)
{
	gloo::AllreduceOptions options(context);

	options.setAlgorithm(count * sizeof(T) <= 65536 ? gloo::AllreduceOptions::Algorithm::BCUBE
							: gloo::AllreduceOptions::Algorithm::RING);
	options.setInput(in, count);
	options.setOutput(out, count);
	options.setReduceFunction(static_cast<reduce_fn>(&gloo::sum<T>));
	gloo::allreduce(options);
}

template <typename Options>
static void both(Options &options, float *in, size_t ins, float *out, size_t outs)
{
	options.setInput(in, ins);
	options.setOutput(out, outs);
}

static void ping_pong(const struct bench_rank *r, float *in, float *out, size_t count)
{
	if (r->rank > 1)
		return;
	auto send = context->createUnboundBuffer(in, count * sizeof(float));
	auto recv = context->createUnboundBuffer(out, count * sizeof(float));
	for (int turn = 0; turn < 2; turn++)
		if (turn == r->rank) {
			send->send(1 - r->rank, 0);
			send->waitSend();
		} else {
			recv->recv(1 - r->rank, 0);
			recv->waitRecv();
		}
}

/* Gloo's errors are exceptions, which end the program. */
static int call(struct bench_rank *r, const struct bench_call *c)
{
	float *in = const_cast<float *>(c->in), *out = c->out;
	size_t n = c->count, all = n * (size_t)r->nranks;
	gloo::AllgatherOptions gather(context);
	gloo::AlltoallOptions exchange(context);
	gloo::BroadcastOptions cast(context);
	gloo::ReduceOptions reduce(context);
	gloo::BarrierOptions barrier(context);

	switch (c->op) {
	case BENCH_ALLREDUCE: allreduce(in, out, n); break;
	case BENCH_ALLREDUCE_F16:
		allreduce(reinterpret_cast<gloo::float16 *>(in),
			  reinterpret_cast<gloo::float16 *>(out), n);
		break;
	case BENCH_ALLGATHER: both(gather, in, n, out, all); gloo::allgather(gather); break;
	case BENCH_ALLTOALL: both(exchange, in, all, out, all); gloo::alltoall(exchange); break;
	case BENCH_BROADCAST:
		cast.setOutput(r->rank == c->root ? in : out, n);
		cast.setRoot(c->root);
		gloo::broadcast(cast);
		break;
	case BENCH_REDUCE:
		both(reduce, in, n, out, n);
		reduce.setRoot(c->root);
		reduce.setReduceFunction(static_cast<reduce_fn>(&gloo::sum<float>));
		gloo::reduce(reduce);
		break;
	case BENCH_BARRIER: gloo::barrier(barrier); break;
	case BENCH_PING_PONG: ping_pong(r, in, out, n); break;
	case BENCH_GROUP:
		for (size_t i = 0; i < BENCH_GROUPED; i++)
			allreduce(in, out + i * n, n);
		break;
	default: return 0;
	}
	return 1;
}

int main(int argc, char **argv)
{
	const char *rank = getenv("COLL_RANK"), *size = getenv("COLL_WORLD_SIZE"), *dir = getenv("BENCH_GLOO");
	struct bench_rank r = {};
	gloo::transport::tcp::attr attr;

	if (!rank || !size || !dir)
		bench_fail("usage: BENCH_GLOO=DIRECTORY coll run -n N -- bench_gloo ...", "");
	r.rank = atoi(rank);
	r.nranks = atoi(size);
	r.call = call;
	r.shared = bench_shared_file();
	attr.hostname = "127.0.0.1";
	gloo::rendezvous::FileStore store(dir);
	context = std::make_shared<gloo::rendezvous::Context>(r.rank, r.nranks);
	auto device = gloo::transport::tcp::CreateDevice(attr);
	context->connectFullMesh(store, device);
	bench_rank_run(&r, argc, argv);
	context.reset();
	return 0;
}
