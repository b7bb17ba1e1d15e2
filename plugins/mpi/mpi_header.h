/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_header.h - MPI's declarations: of the ABI, or, with ./configure --with-mpi=MPICC, of the mpi.h of an MPI library without
 * that ABI.  Either way the plugin opens the library at run time.
 */
#ifndef MPI_HEADER_H
#define MPI_HEADER_H

#ifdef MPI_OWN_HEADER
#include <mpi.h>
#else
#include "mpi_abi.h"
#define MPI_DEFAULT_LIBRARY "libmpi_abi.so.1"
#endif

#ifdef OPEN_MPI
/* Open MPI's handles are addresses of data in the library.  The plugin finds each address once for each place that uses it. */
void *mpi_find_handle(const char *name);
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global)                                                       \
	((type) __extension__({                                                                    \
		static void *_Atomic found;                                                        \
		if (!found)                                                                        \
			found = mpi_find_handle(#global);                                          \
		found;                                                                             \
	}))
/* Open MPI lacks the functions with large counts: mpi_narrow.c has them in terms of those with int counts. */
#define MPI_NARROW 1
#endif

#if defined(MPI_NARROW) || !defined(MPI_OWN_HEADER)
#include "mpi_large.h"
#endif

#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
/* ULFM is no part of the MPI-5 ABI. */
#ifdef MPIX_ERR_PROC_FAILED
#define MPI_ULFM 1
#endif

#endif
