/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi_type.c - MPI's types and operations for those of coll.h. */
#include "mpi_plugin.h"

#include "base/tables.h"

size_t mpi_size_of(int32_t dtype)
{
#define TYPE_SIZE(number, name, size, ...) [number] = size,
	static const uint8_t sizes[] = {DTYPES(TYPE_SIZE)};

	return sizes[dtype];
}

static MPI_Datatype type_integer(int32_t dtype)
{
	switch (dtype) {
	case COLL_INT8: return MPI_INT8_T;
	case COLL_UINT8:
	case COLL_BOOL: return MPI_UINT8_T;
	case COLL_INT16: return MPI_INT16_T;
	case COLL_UINT16: return MPI_UINT16_T;
	case COLL_INT32: return MPI_INT32_T;
	case COLL_UINT32: return MPI_UINT32_T;
	case COLL_INT64: return MPI_INT64_T;
	case COLL_UINT64: return MPI_UINT64_T;
	default: return MPI_DATATYPE_NULL;
	}
}

static MPI_Datatype type_float(int32_t dtype)
{
	switch (dtype) {
	case COLL_FLOAT32: return MPI_FLOAT;
	case COLL_FLOAT64: return MPI_DOUBLE;
	case COLL_COMPLEX64: return MPI_C_FLOAT_COMPLEX;
	case COLL_COMPLEX128: return MPI_C_DOUBLE_COMPLEX;
	default: return MPI_DATATYPE_NULL;
	}
}

static MPI_Op type_op(int32_t op)
{
	switch (op) {
	case COLL_SUM: return MPI_SUM;
	case COLL_PROD: return MPI_PROD;
	case COLL_MAX: return MPI_MAX;
	case COLL_MIN: return MPI_MIN;
	case COLL_BAND: return MPI_BAND;
	case COLL_BOR: return MPI_BOR;
	case COLL_BXOR: return MPI_BXOR;
	case COLL_LAND: return MPI_LAND;
	case COLL_LOR: return MPI_LOR;
	case COLL_LXOR: return MPI_LXOR;
	default: return MPI_OP_NULL;
	}
}

/* Has the library been seen to compute something else than coll.h says? */
static int type_is_wrong(int32_t dtype, int32_t op)
{
#if defined(OPEN_MPI)
	/* Seen with 4.1.4, though not without libcoll: the sum of two int16 of 20000 was 32767. */
	return op == COLL_SUM && mpi_size_of(dtype) < sizeof(int32_t);
#elif defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 50000000
	/* 4.0.2 takes unsigned numbers for signed numbers: the larger of 3 and 200 is 3. */
	return (op == COLL_MAX || op == COLL_MIN) && dtype != COLL_INT8 && dtype != COLL_INT16 &&
	       dtype != COLL_INT32 && dtype != COLL_INT64;
#else
	(void)dtype;
	(void)op;
	return 0;
#endif
}

/*
 * MPI has no 16-bit and 8-bit floating types, and no average.  It does not say what MIN and MAX make of a NaN, and whether a
 * tie of MINLOC takes the lower index of two on one rank, as coll.h does.
 */
int mpi_reduction(int32_t dtype, int32_t op, MPI_Datatype *mpi_type, MPI_Op *mpi_op)
{
	if (type_is_wrong(dtype, op))
		return 0;
	*mpi_type = type_integer(dtype);
	*mpi_op = type_op(op);
	if (*mpi_type == MPI_DATATYPE_NULL && (op == COLL_SUM || op == COLL_PROD))
		*mpi_type = type_float(dtype);
	return *mpi_type != MPI_DATATYPE_NULL && *mpi_op != MPI_OP_NULL;
}
