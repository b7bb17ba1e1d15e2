/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_narrow.c - for an MPI library without large counts: the functions with large counts in terms of those with int counts.
 * The caller has checked that the counts fit (mpi_native.c).
 */
#include "mpi_plugin.h"

#ifdef MPI_NARROW

#include <dlfcn.h>
#include <string.h>

#define NARROW_FUNCTIONS(X)                                                                        \
	X(MPI_Iallgather, iallgather)                                                              \
	X(MPI_Iallreduce, iallreduce)                                                              \
	X(MPI_Ialltoall, ialltoall)                                                                \
	X(MPI_Ibcast, ibcast)                                                                      \
	X(MPI_Iexscan, iexscan)                                                                    \
	X(MPI_Igather, igather)                                                                    \
	X(MPI_Ireduce, ireduce)                                                                    \
	X(MPI_Ireduce_scatter_block, ireduce_scatter_block)                                        \
	X(MPI_Iscan, iscan)                                                                        \
	X(MPI_Iscatter, iscatter)

/* The functions with int counts. */
static struct narrow {
#define NARROW_MEMBER(function, member) __typeof__(function) *member;
	NARROW_FUNCTIONS(NARROW_MEMBER)
} narrow;

static const struct narrow_symbol {
	const char *name;
	size_t at;
} narrow_symbols[] = {
#define NARROW_SYMBOL(function, member) {#function, offsetof(struct narrow, member)},
	NARROW_FUNCTIONS(NARROW_SYMBOL)};

static int narrow_iallgather(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
			     void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
			     MPI_Comm comm, MPI_Request *request)
{
	return narrow.iallgather(sendbuf, (int)sendcount, sendtype, recvbuf, (int)recvcount,
				 recvtype, comm, request);
}

static int narrow_iallreduce(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype type,
			     MPI_Op op, MPI_Comm comm, MPI_Request *request)
{
	return narrow.iallreduce(sendbuf, recvbuf, (int)count, type, op, comm, request);
}

static int narrow_iscan(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype type,
			MPI_Op op, MPI_Comm comm, MPI_Request *request)
{
	return narrow.iscan(sendbuf, recvbuf, (int)count, type, op, comm, request);
}

static int narrow_iexscan(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype type,
			  MPI_Op op, MPI_Comm comm, MPI_Request *request)
{
	return narrow.iexscan(sendbuf, recvbuf, (int)count, type, op, comm, request);
}

static int narrow_ialltoall(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
			    void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
			    MPI_Comm comm, MPI_Request *request)
{
	return narrow.ialltoall(sendbuf, (int)sendcount, sendtype, recvbuf, (int)recvcount,
				recvtype, comm, request);
}

static int narrow_ibcast(void *buf, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm,
			 MPI_Request *request)
{
	return narrow.ibcast(buf, (int)count, type, root, comm, request);
}

static int narrow_igather(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
			  void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root,
			  MPI_Comm comm, MPI_Request *request)
{
	return narrow.igather(sendbuf, (int)sendcount, sendtype, recvbuf, (int)recvcount, recvtype,
			      root, comm, request);
}

static int narrow_ireduce(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype type,
			  MPI_Op op, int root, MPI_Comm comm, MPI_Request *request)
{
	return narrow.ireduce(sendbuf, recvbuf, (int)count, type, op, root, comm, request);
}

static int narrow_ireduce_scatter_block(const void *sendbuf, void *recvbuf, MPI_Count recvcount,
					MPI_Datatype type, MPI_Op op, MPI_Comm comm,
					MPI_Request *request)
{
	return narrow.ireduce_scatter_block(sendbuf, recvbuf, (int)recvcount, type, op, comm,
					    request);
}

static int narrow_iscatter(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
			   void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root,
			   MPI_Comm comm, MPI_Request *request)
{
	return narrow.iscatter(sendbuf, (int)sendcount, sendtype, recvbuf, (int)recvcount, recvtype,
			       root, comm, request);
}

const char *mpi_narrow(void *library, struct mpi_library *lib)
{
	for (size_t i = 0; i < sizeof(narrow_symbols) / sizeof(narrow_symbols[0]); i++) {
		void *symbol = dlsym(library, narrow_symbols[i].name);

		if (!symbol)
			return narrow_symbols[i].name;
		memcpy((char *)&narrow + narrow_symbols[i].at, &symbol, sizeof(symbol));
	}
	lib->iallgather = narrow_iallgather;
	lib->iallreduce = narrow_iallreduce;
	lib->ialltoall = narrow_ialltoall;
	lib->ibcast = narrow_ibcast;
	lib->iexscan = narrow_iexscan;
	lib->igather = narrow_igather;
	lib->ireduce = narrow_ireduce;
	lib->ireduce_scatter_block = narrow_ireduce_scatter_block;
	lib->iscan = narrow_iscan;
	lib->iscatter = narrow_iscatter;
	return NULL;
}

#else

const char *mpi_narrow(void *library, struct mpi_library *lib)
{
	(void)library;
	(void)lib;
	return NULL;
}

#endif
