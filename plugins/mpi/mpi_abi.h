/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_abi.h - the part of the MPI-5 ABI that the plugin uses.  With it the build needs no header of an MPI library, and one
 * binary serves every library with that ABI.
 *
 * Names, numbers and types are those of the standard (MPI 5.0, chapter "Application Binary Interface").
 * tests/mpi/mpi.t compares them with the header of each library that it finds.
 */
#ifndef MPI_ABI_H
#define MPI_ABI_H

#include <stdint.h>

/* Every handle is a pointer to an incomplete type.  The predefined handles are small numbers. */
typedef struct MPI_ABI_Op *MPI_Op;
typedef struct MPI_ABI_Comm *MPI_Comm;
typedef struct MPI_ABI_Group *MPI_Group;
typedef struct MPI_ABI_Info *MPI_Info;
typedef struct MPI_ABI_Errhandler *MPI_Errhandler;
typedef struct MPI_ABI_Request *MPI_Request;
typedef struct MPI_ABI_Datatype *MPI_Datatype;
typedef intptr_t MPI_Aint;
typedef int64_t MPI_Count;

typedef struct {
	int MPI_SOURCE;
	int MPI_TAG;
	int MPI_ERROR;
	int MPI_internal[5];
} MPI_Status;

#define MPI_COMM_NULL     ((MPI_Comm)0x100)
#define MPI_COMM_WORLD    ((MPI_Comm)0x101)
#define MPI_COMM_SELF     ((MPI_Comm)0x102)
#define MPI_GROUP_NULL    ((MPI_Group)0x108)
#define MPI_INFO_NULL     ((MPI_Info)0x130)
#define MPI_ERRORS_RETURN ((MPI_Errhandler)0x143)
#define MPI_REQUEST_NULL  ((MPI_Request)0x180)
#define MPI_OP_NULL       ((MPI_Op)0x20)
#define MPI_SUM           ((MPI_Op)0x21)
#define MPI_MIN           ((MPI_Op)0x22)
#define MPI_MAX           ((MPI_Op)0x23)
#define MPI_PROD          ((MPI_Op)0x24)
#define MPI_BAND          ((MPI_Op)0x28)
#define MPI_BOR           ((MPI_Op)0x29)
#define MPI_BXOR          ((MPI_Op)0x2a)
#define MPI_LAND          ((MPI_Op)0x30)
#define MPI_LOR           ((MPI_Op)0x31)
#define MPI_LXOR          ((MPI_Op)0x32)

#define MPI_DATATYPE_NULL    ((MPI_Datatype)0x200)
#define MPI_FLOAT            ((MPI_Datatype)0x210)
#define MPI_C_FLOAT_COMPLEX  ((MPI_Datatype)0x212)
#define MPI_DOUBLE           ((MPI_Datatype)0x214)
#define MPI_C_DOUBLE_COMPLEX ((MPI_Datatype)0x216)
#define MPI_INT8_T           ((MPI_Datatype)0x240)
#define MPI_UINT8_T          ((MPI_Datatype)0x241)
#define MPI_BYTE             ((MPI_Datatype)0x247)
#define MPI_INT16_T          ((MPI_Datatype)0x248)
#define MPI_UINT16_T         ((MPI_Datatype)0x249)
#define MPI_INT32_T          ((MPI_Datatype)0x250)
#define MPI_UINT32_T         ((MPI_Datatype)0x251)
#define MPI_INT64_T          ((MPI_Datatype)0x258)
#define MPI_UINT64_T         ((MPI_Datatype)0x259)

#define MPI_IN_PLACE ((void *)1)

#define MPI_STATUS_IGNORE ((MPI_Status *)0)

enum {
	MPI_SUCCESS = 0,
	MPI_ANY_SOURCE = -1,
	MPI_UNDEFINED = -32766,
	MPI_KEYVAL_INVALID = 0,
	MPI_MAX_ERROR_STRING = 512,
	MPI_MAX_LIBRARY_VERSION_STRING = 8192
};

/* The numbers grow with what a thread may do. */
enum {
	MPI_THREAD_SINGLE = 0,
	MPI_THREAD_FUNNELED = 1024,
	MPI_THREAD_SERIALIZED = 2048,
	MPI_THREAD_MULTIPLE = 4096
};

typedef int MPI_Comm_copy_attr_function(MPI_Comm comm, int keyval, void *extra, void *in, void *out,
					int *flag);
typedef int MPI_Comm_delete_attr_function(MPI_Comm comm, int keyval, void *value, void *extra);

int MPI_Cancel(MPI_Request *request);
int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *newcomm);
int MPI_Comm_create_keyval(MPI_Comm_copy_attr_function *copy, MPI_Comm_delete_attr_function *del,
			   int *keyval, void *extra);
int MPI_Comm_free(MPI_Comm *comm);
int MPI_Comm_get_errhandler(MPI_Comm comm, MPI_Errhandler *handler);
int MPI_Comm_group(MPI_Comm comm, MPI_Group *group);
int MPI_Comm_rank(MPI_Comm comm, int *rank);
int MPI_Comm_set_attr(MPI_Comm comm, int keyval, void *value);
int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler);
int MPI_Comm_size(MPI_Comm comm, int *size);
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *newcomm);
int MPI_Errhandler_free(MPI_Errhandler *handler);
int MPI_Error_string(int code, char *text, int *length);
int MPI_Finalize(void);
int MPI_Finalized(int *flag);
int MPI_Get_library_version(char *text, int *length);
int MPI_Group_free(MPI_Group *group);
int MPI_Group_incl(MPI_Group group, int n, const int ranks[], MPI_Group *newgroup);
int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request);
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided);
int MPI_Initialized(int *flag);
int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
	      MPI_Request *request);
int MPI_Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
	      MPI_Request *request);
int MPI_Query_thread(int *provided);
int MPI_Request_free(MPI_Request *request);
int MPI_Start(MPI_Request *request);
int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status);

#endif
