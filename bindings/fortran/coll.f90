! SPDX-License-Identifier: BSD-3-Clause
!
! coll.f90 - the constants of coll.h for Fortran.
!
! coll.h is the manual.  Its functions have no macros, so that a program declares those that it calls by bind(c): handles and
! streams are type(c_ptr), buffers type(c_ptr) by value, counts integer(c_size_t) by value, all other integers
! integer(c_int32_t) by value.  Buffers have the attributes target and asynchronous until their operation is complete.
module coll
   use, intrinsic :: iso_c_binding, only: c_int32_t
   implicit none
   private :: c_int32_t

   ! results
   integer(c_int32_t), parameter :: COLL_RESULT_NONE          = -1
   integer(c_int32_t), parameter :: COLL_SUCCESS              = 0
   integer(c_int32_t), parameter :: COLL_ERR_DEVICE           = 1
   integer(c_int32_t), parameter :: COLL_ERR_SYSTEM           = 2
   integer(c_int32_t), parameter :: COLL_ERR_INTERNAL         = 3
   integer(c_int32_t), parameter :: COLL_ERR_INVALID_ARGUMENT = 4
   integer(c_int32_t), parameter :: COLL_ERR_INVALID_USAGE    = 5
   integer(c_int32_t), parameter :: COLL_ERR_REMOTE           = 6
   integer(c_int32_t), parameter :: COLL_IN_PROGRESS          = 7
   integer(c_int32_t), parameter :: COLL_ERR_TIMEOUT          = 8
   integer(c_int32_t), parameter :: COLL_ERR_UNSUPPORTED      = 16
   integer(c_int32_t), parameter :: COLL_ERR_NO_MEMORY        = 17
   integer(c_int32_t), parameter :: COLL_ERR_CONFIG           = 18
   integer(c_int32_t), parameter :: COLL_ERR_NOT_FOUND        = 19
   integer(c_int32_t), parameter :: COLL_ERR_PLUGIN           = 20
   integer(c_int32_t), parameter :: COLL_ERR_ABI              = 21
   integer(c_int32_t), parameter :: COLL_ERR_MISMATCH         = 22
   integer(c_int32_t), parameter :: COLL_ERR_PEER_LOST        = 23
   integer(c_int32_t), parameter :: COLL_ERR_ABORTED          = 24
   integer(c_int32_t), parameter :: COLL_ERR_VERSION          = 25
   integer(c_int32_t), parameter :: COLL_ERR_PERMISSION       = 26

   ! data types
   integer(c_int32_t), parameter :: COLL_DTYPE_NONE    = -1
   integer(c_int32_t), parameter :: COLL_INT8          = 0
   integer(c_int32_t), parameter :: COLL_UINT8         = 1
   integer(c_int32_t), parameter :: COLL_INT32         = 2
   integer(c_int32_t), parameter :: COLL_UINT32        = 3
   integer(c_int32_t), parameter :: COLL_INT64         = 4
   integer(c_int32_t), parameter :: COLL_UINT64        = 5
   integer(c_int32_t), parameter :: COLL_FLOAT16       = 6
   integer(c_int32_t), parameter :: COLL_FLOAT32       = 7
   integer(c_int32_t), parameter :: COLL_FLOAT64       = 8
   integer(c_int32_t), parameter :: COLL_BFLOAT16      = 9
   integer(c_int32_t), parameter :: COLL_FLOAT8E4M3    = 10
   integer(c_int32_t), parameter :: COLL_FLOAT8E5M2    = 11
   integer(c_int32_t), parameter :: COLL_INT16         = 32
   integer(c_int32_t), parameter :: COLL_UINT16        = 33
   integer(c_int32_t), parameter :: COLL_BOOL          = 34
   integer(c_int32_t), parameter :: COLL_COMPLEX64     = 35
   integer(c_int32_t), parameter :: COLL_COMPLEX128    = 36
   integer(c_int32_t), parameter :: COLL_FLOAT32_INT32 = 37
   integer(c_int32_t), parameter :: COLL_FLOAT64_INT32 = 38
   integer(c_int32_t), parameter :: COLL_INT32_INT32   = 39
   integer(c_int32_t), parameter :: COLL_INT64_INT32   = 40
   integer(c_int32_t), parameter :: COLL_OPAQUE        = 65536

   ! the largest element of an opaque type, in bytes
   integer(c_int32_t), parameter :: COLL_OPAQUE_SIZE_MAX = 4096

   ! operations
   integer(c_int32_t), parameter :: COLL_OP_NONE = -1
   integer(c_int32_t), parameter :: COLL_SUM     = 0
   integer(c_int32_t), parameter :: COLL_PROD    = 1
   integer(c_int32_t), parameter :: COLL_MAX     = 2
   integer(c_int32_t), parameter :: COLL_MIN     = 3
   integer(c_int32_t), parameter :: COLL_AVG     = 4
   integer(c_int32_t), parameter :: COLL_BAND    = 32
   integer(c_int32_t), parameter :: COLL_BOR     = 33
   integer(c_int32_t), parameter :: COLL_BXOR    = 34
   integer(c_int32_t), parameter :: COLL_LAND    = 35
   integer(c_int32_t), parameter :: COLL_LOR     = 36
   integer(c_int32_t), parameter :: COLL_LXOR    = 37
   integer(c_int32_t), parameter :: COLL_MINLOC  = 38
   integer(c_int32_t), parameter :: COLL_MAXLOC  = 39

   ! bytes that suffice for every id
   integer(c_int32_t), parameter :: COLL_UNIQUE_ID_SIZE = 512

   ! of coll_comm_split
   integer(c_int32_t), parameter :: COLL_SPLIT_NOCOLOR = -1

   ! of coll_get_counters
   integer(c_int32_t), parameter :: COLL_COUNT_NONE      = -1
   integer(c_int32_t), parameter :: COLL_COUNT_ALL       = 0
   integer(c_int32_t), parameter :: COLL_COUNT_ISEND     = 256
   integer(c_int32_t), parameter :: COLL_COUNT_IRECV     = 257
   integer(c_int32_t), parameter :: COLL_COUNT_OTHER     = 258
   integer(c_int32_t), parameter :: COLL_COUNTER_BUCKETS = 32

   ! of coll_recv, coll_irecv and coll_probe
   integer(c_int32_t), parameter :: COLL_ANY_SOURCE = -1

   ! of coll_irecv and coll_probe
   integer(c_int32_t), parameter :: COLL_ANY_TAG = -1

   ! kinds of operation, for coll_args_t
   integer(c_int32_t), parameter :: COLL_KIND_NONE            = -1
   integer(c_int32_t), parameter :: COLL_KIND_ALLREDUCE       = 1
   integer(c_int32_t), parameter :: COLL_KIND_BROADCAST       = 2
   integer(c_int32_t), parameter :: COLL_KIND_REDUCE          = 3
   integer(c_int32_t), parameter :: COLL_KIND_ALLGATHER       = 4
   integer(c_int32_t), parameter :: COLL_KIND_REDUCE_SCATTER  = 5
   integer(c_int32_t), parameter :: COLL_KIND_ALLTOALL        = 6
   integer(c_int32_t), parameter :: COLL_KIND_GATHER          = 7
   integer(c_int32_t), parameter :: COLL_KIND_SCATTER         = 8
   integer(c_int32_t), parameter :: COLL_KIND_ALLGATHERV      = 9
   integer(c_int32_t), parameter :: COLL_KIND_REDUCE_SCATTERV = 10
   integer(c_int32_t), parameter :: COLL_KIND_ALLTOALLV       = 11
   integer(c_int32_t), parameter :: COLL_KIND_GATHERV         = 12
   integer(c_int32_t), parameter :: COLL_KIND_SCATTERV        = 13
   integer(c_int32_t), parameter :: COLL_KIND_BARRIER         = 14
   integer(c_int32_t), parameter :: COLL_KIND_SEND            = 15
   integer(c_int32_t), parameter :: COLL_KIND_RECV            = 16
   integer(c_int32_t), parameter :: COLL_KIND_SCAN            = 17
   integer(c_int32_t), parameter :: COLL_KIND_EXSCAN          = 18

   ! where coll_args_t.flags names an algorithm
   integer(c_int32_t), parameter :: COLL_ARGS_ALGORITHM = 16

   ! places of a scalar
   integer(c_int32_t), parameter :: COLL_SCALAR_NONE           = -1
   integer(c_int32_t), parameter :: COLL_SCALAR_DEVICE         = 0
   integer(c_int32_t), parameter :: COLL_SCALAR_HOST_IMMEDIATE = 1
end module coll
