/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.c - the functions of nccl_device.h for the host.  They prepare kernels that communicate by themselves, which libcoll
 * has not: a program that asks ncclCommQueryProperties first learns it, and each function that would prepare such a
 * kernel fails.
 */
#include "dropin.h"

#include <string.h>

static ncclResult_t no_kernels(const char *function)
{
	return fail(ncclInvalidUsage,
		    "%s is not supported; kernels cannot communicate by themselves", function);
}

/* ----------------------------------------------------------------- communicators -- */

/* A program of an older NCCL has a shorter struct, of which it gets the members that it knows. */
ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *properties)
{
	ncclCommProperties_t known = {.nvmlDev = -1, .ginType = NCCL_GIN_TYPE_NONE};
	ncclResult_t code = comm_check(comm, "ncclCommQueryProperties");

	if (!code && !properties)
		code = fail(ncclInvalidArgument, "ncclCommQueryProperties: props is NULL");
	if (!code && properties->magic != (unsigned)NCCL_API_MAGIC)
		code = fail(ncclInvalidUsage,
			    "ncclCommQueryProperties: props was not initialized with "
			    "NCCL_COMM_PROPERTIES_INITIALIZER");
	if (code)
		return code;
	known.size = properties->size;
	known.magic = properties->magic;
	known.version = properties->version;
	known.rank = comm->rank;
	known.nRanks = known.nLsaTeams = comm->nranks;
	known.cudaDev = comm->device;
	memcpy(properties, &known, known.size < sizeof(known) ? known.size : sizeof(known));
	return ncclSuccess;
}
NCCL_ALSO(ncclCommQueryProperties);

ncclResult_t ncclDevCommCreate(ncclComm_t comm, const void *requirements, void *devcomm)
{
	ncclResult_t code = comm_check(comm, "ncclDevCommCreate");

	(void)requirements, (void)devcomm;
	return group_note(code ? code : no_kernels("ncclDevCommCreate"));
}
NCCL_ALSO(ncclDevCommCreate);

ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const void *devcomm)
{
	ncclResult_t code = comm_check(comm, "ncclDevCommDestroy");

	(void)devcomm;
	return code ? code : no_kernels("ncclDevCommDestroy");
}
NCCL_ALSO(ncclDevCommDestroy);

/* ----------------------------------------------------------------------- windows -- */

static ncclResult_t no_window(const char *function)
{
	return fail(ncclInvalidArgument,
		    "%s: there is no such window: ncclCommWindowRegister gives none", function);
}

static ncclResult_t no_device_pointer(const char *function, void **ptr)
{
	if (ptr)
		*ptr = NULL;
	return no_window(function);
}

ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **ptr)
{
	(void)window, (void)offset;
	return no_device_pointer("ncclGetLsaMultimemDevicePointer", ptr);
}
NCCL_ALSO(ncclGetLsaMultimemDevicePointer);

ncclResult_t ncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset, void *multimem,
					  void **ptr)
{
	(void)window, (void)offset, (void)multimem;
	return no_device_pointer("ncclGetMultimemDevicePointer", ptr);
}
NCCL_ALSO(ncclGetMultimemDevicePointer);

ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int rank, void **ptr)
{
	(void)window, (void)offset, (void)rank;
	return no_device_pointer("ncclGetLsaDevicePointer", ptr);
}
NCCL_ALSO(ncclGetLsaDevicePointer);

ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void **ptr)
{
	(void)window, (void)offset, (void)peer;
	return no_device_pointer("ncclGetPeerDevicePointer", ptr);
}
NCCL_ALSO(ncclGetPeerDevicePointer);

/* No endpoint by which a device could reach the window. */
static ncclResult_t no_endpoint(const char *function, uint32_t *id, size_t *at)
{
	if (id)
		*id = NCCL_LE_ID_INVALID;
	if (at)
		*at = 0;
	return no_window(function);
}

ncclResult_t ncclGetMultimemDeviceLeInfo(ncclWindow_t window, size_t offset, uint32_t *id,
					 size_t *at)
{
	(void)window, (void)offset;
	return no_endpoint("ncclGetMultimemDeviceLeInfo", id, at);
}
NCCL_ALSO(ncclGetMultimemDeviceLeInfo);

ncclResult_t ncclGetCftDeviceLeInfo(ncclWindow_t window, size_t offset, int peer, ncclTeam_t team,
				    uint32_t *id, size_t *at)
{
	(void)window, (void)offset, (void)peer, (void)team;
	return no_endpoint("ncclGetCftDeviceLeInfo", id, at);
}
NCCL_ALSO(ncclGetCftDeviceLeInfo);

ncclResult_t ncclGetPeerDeviceLeInfo(ncclWindow_t window, size_t offset, int peer, uint32_t *id,
				     size_t *at)
{
	(void)window, (void)offset, (void)peer;
	return no_endpoint("ncclGetPeerDeviceLeInfo", id, at);
}
NCCL_ALSO(ncclGetPeerDeviceLeInfo);

/* ------------------------------------------------------------------------- teams -- */

/* All ranks; a team without ranks if `comm` is no communicator, since these functions have no code to return. */
static ncclTeam_t team_of_all(const struct ncclComm *comm, const char *function)
{
	if (comm_check(comm, function))
		return (ncclTeam_t){0, 0, 0};
	return (ncclTeam_t){.nRanks = comm->nranks, .rank = comm->rank, .stride = 1};
}

/* The ranks whose memory the device of this rank reaches: this one. */
static ncclTeam_t team_of_one(const struct ncclComm *comm, const char *function)
{
	if (comm_check(comm, function))
		return (ncclTeam_t){0, 0, 0};
	return (ncclTeam_t){.nRanks = 1, .rank = 0, .stride = 1};
}

ncclTeam_t ncclTeamWorld(ncclComm_t comm)
{
	return team_of_all(comm, "ncclTeamWorld");
}
NCCL_ALSO(ncclTeamWorld);

/* One rank of each team of ncclTeamLsa. */
ncclTeam_t ncclTeamRail(ncclComm_t comm)
{
	return team_of_all(comm, "ncclTeamRail");
}
NCCL_ALSO(ncclTeamRail);

ncclTeam_t ncclTeamLsa(ncclComm_t comm)
{
	return team_of_one(comm, "ncclTeamLsa");
}
NCCL_ALSO(ncclTeamLsa);

ncclTeam_t ncclTeamCft(ncclComm_t comm, int mode)
{
	(void)mode;
	return team_of_one(comm, "ncclTeamCft");
}
NCCL_ALSO(ncclTeamCft);

ncclTeam_t ncclTeamCftMultimem(ncclComm_t comm)
{
	return team_of_one(comm, "ncclTeamCftMultimem");
}
NCCL_ALSO(ncclTeamCftMultimem);

/* The number, in the communicator, of a rank of the team. */
int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank)
{
	if (comm_check(comm, "ncclTeamRankToWorld"))
		return -1;
	return comm->rank + (rank - team.rank) * team.stride;
}
NCCL_ALSO(ncclTeamRankToWorld);

/* The same in the team of ncclTeamLsa, which has this rank only. */
int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank)
{
	if (comm_check(comm, "ncclTeamRankToLsa"))
		return -1;
	return team.stride && rank != team.rank ? -1 : 0;
}
NCCL_ALSO(ncclTeamRankToLsa);

/* ------------------------------------------------------------------ requirements -- */

/* A slot holds 8 bytes of an element. */
int ncclLLA2ACalcSlots(int elements, int size)
{
	return elements * ((size + 7) / 8);
}
NCCL_ALSO(ncclLLA2ACalcSlots);

/* NVIDIA's ncclDevCommCreate allocates the resources that these requirements ask for; libcoll has no device communicators. */
static ncclResult_t no_requirement(const char *function, ncclDevResourceRequirements_t *requirement)
{
	if (requirement)
		memset(requirement, 0, sizeof(*requirement));
	return no_kernels(function);
}

ncclResult_t ncclLLA2ACreateRequirement(int blocks, int slots, void *handle,
					ncclDevResourceRequirements_t *requirement)
{
	(void)blocks, (void)slots, (void)handle;
	return no_requirement("ncclLLA2ACreateRequirement", requirement);
}
NCCL_ALSO(ncclLLA2ACreateRequirement);

ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t team, int barriers, void *handle,
					     ncclDevResourceRequirements_t *requirement)
{
	(void)team, (void)barriers, (void)handle;
	return no_requirement("ncclLsaBarrierCreateRequirement", requirement);
}
NCCL_ALSO(ncclLsaBarrierCreateRequirement);

ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int barriers,
					     void *handle,
					     ncclDevResourceRequirements_t *requirement)
{
	(void)comm, (void)team, (void)barriers, (void)handle;
	return no_requirement("ncclGinBarrierCreateRequirement", requirement);
}
NCCL_ALSO(ncclGinBarrierCreateRequirement);

ncclResult_t ncclGinOutboxCreateRequirement(int blocks, int size_log2, void *handle,
					    ncclDevResourceRequirements_t *requirement)
{
	(void)blocks, (void)size_log2, (void)handle;
	return no_requirement("ncclGinOutboxCreateRequirement", requirement);
}
NCCL_ALSO(ncclGinOutboxCreateRequirement);

ncclResult_t ncclGinInboxA2ACreateRequirement(ncclTeam_t peers, int blocks, int size_log2,
					      void *handle,
					      ncclDevResourceRequirements_t *requirement)
{
	(void)peers, (void)blocks, (void)size_log2, (void)handle;
	return no_requirement("ncclGinInboxA2ACreateRequirement", requirement);
}
NCCL_ALSO(ncclGinInboxA2ACreateRequirement);
