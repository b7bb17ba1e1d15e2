/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * numbers.h - prints the numbers and layouts of UCC's interface that the plugin relies on.  ucc.t compiles it behind the
 * plugin's declarations and behind UCC's own header, and compares what the two programs print.
 */
#include <stddef.h>
#include <stdio.h>

#define NUMBER(name)       printf("%s %lld\n", #name, (long long)(name))
#define MEMBER(type, name) printf("%s.%s at %zu\n", #type, #name, offsetof(type, name))

static void numbers_of_results(void)
{
	NUMBER(UCC_OK);
	NUMBER(UCC_INPROGRESS);
	NUMBER(UCC_ERR_NOT_SUPPORTED);
	NUMBER(UCC_ERR_NOT_IMPLEMENTED);
	NUMBER(UCC_ERR_INVALID_PARAM);
	NUMBER(UCC_ERR_NO_MEMORY);
	NUMBER(UCC_ERR_NO_RESOURCE);
	NUMBER(UCC_ERR_NO_MESSAGE);
	NUMBER(UCC_ERR_TIMED_OUT);
}

static void numbers_of_making(void)
{
	NUMBER(UCC_LIB_PARAM_FIELD_THREAD_MODE);
	NUMBER(UCC_THREAD_MULTIPLE);
	NUMBER(UCC_CONTEXT_PARAM_FIELD_TYPE);
	NUMBER(UCC_CONTEXT_PARAM_FIELD_OOB);
	NUMBER(UCC_CONTEXT_EXCLUSIVE);
	NUMBER(UCC_TEAM_PARAM_FIELD_EP);
	NUMBER(UCC_TEAM_PARAM_FIELD_EP_RANGE);
	NUMBER(UCC_TEAM_PARAM_FIELD_OOB);
	NUMBER(UCC_COLLECTIVE_EP_RANGE_CONTIG);
	NUMBER(sizeof(ucc_lib_params_t));
	MEMBER(ucc_lib_params_t, thread_mode);
	NUMBER(sizeof(ucc_oob_coll_t));
	MEMBER(ucc_oob_coll_t, allgather);
	MEMBER(ucc_oob_coll_t, req_test);
	MEMBER(ucc_oob_coll_t, req_free);
	MEMBER(ucc_oob_coll_t, coll_info);
	MEMBER(ucc_oob_coll_t, n_oob_eps);
	MEMBER(ucc_oob_coll_t, oob_ep);
	NUMBER(sizeof(ucc_context_params_t));
	MEMBER(ucc_context_params_t, type);
	MEMBER(ucc_context_params_t, oob);
	MEMBER(ucc_team_params_t, ep);
	MEMBER(ucc_team_params_t, ep_range);
	MEMBER(ucc_team_params_t, oob);
}

static void numbers_of_types(void)
{
	NUMBER(UCC_DT_INT8);
	NUMBER(UCC_DT_INT16);
	NUMBER(UCC_DT_INT32);
	NUMBER(UCC_DT_INT64);
	NUMBER(UCC_DT_UINT8);
	NUMBER(UCC_DT_UINT16);
	NUMBER(UCC_DT_UINT32);
	NUMBER(UCC_DT_UINT64);
	NUMBER(UCC_DT_FLOAT32);
	NUMBER(UCC_DT_FLOAT64);
	NUMBER(UCC_DT_FLOAT32_COMPLEX);
	NUMBER(UCC_DT_FLOAT64_COMPLEX);
	NUMBER(UCC_OP_SUM);
	NUMBER(UCC_OP_PROD);
	NUMBER(UCC_OP_MAX);
	NUMBER(UCC_OP_MIN);
	NUMBER(UCC_OP_LAND);
	NUMBER(UCC_OP_LOR);
	NUMBER(UCC_OP_BAND);
	NUMBER(UCC_OP_BOR);
	NUMBER(UCC_OP_BXOR);
	NUMBER(UCC_OP_AVG);
}

static void numbers_of_calls(void)
{
	NUMBER(UCC_COLL_TYPE_ALLGATHER);
	NUMBER(UCC_COLL_TYPE_ALLGATHERV);
	NUMBER(UCC_COLL_TYPE_ALLREDUCE);
	NUMBER(UCC_COLL_TYPE_ALLTOALL);
	NUMBER(UCC_COLL_TYPE_ALLTOALLV);
	NUMBER(UCC_COLL_TYPE_BARRIER);
	NUMBER(UCC_COLL_TYPE_BCAST);
	NUMBER(UCC_COLL_TYPE_GATHER);
	NUMBER(UCC_COLL_TYPE_GATHERV);
	NUMBER(UCC_COLL_TYPE_REDUCE);
	NUMBER(UCC_COLL_TYPE_REDUCE_SCATTER);
	NUMBER(UCC_COLL_TYPE_REDUCE_SCATTERV);
	NUMBER(UCC_COLL_TYPE_SCATTERV);
	NUMBER(UCC_MEMORY_TYPE_HOST);
	NUMBER(UCC_COLL_ARGS_FIELD_FLAGS);
	NUMBER(UCC_COLL_ARGS_FLAG_IN_PLACE);
	NUMBER(UCC_COLL_ARGS_FLAG_COUNT_64BIT);
	NUMBER(UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT);
	NUMBER(sizeof(ucc_coll_buffer_info_t));
	MEMBER(ucc_coll_buffer_info_t, count);
	MEMBER(ucc_coll_buffer_info_t, datatype);
	MEMBER(ucc_coll_buffer_info_t, mem_type);
	NUMBER(sizeof(ucc_coll_buffer_info_v_t));
	MEMBER(ucc_coll_buffer_info_v_t, counts);
	MEMBER(ucc_coll_buffer_info_v_t, displacements);
	MEMBER(ucc_coll_buffer_info_v_t, datatype);
	MEMBER(ucc_coll_buffer_info_v_t, mem_type);
	MEMBER(ucc_coll_args_t, coll_type);
	MEMBER(ucc_coll_args_t, src);
	MEMBER(ucc_coll_args_t, dst);
	MEMBER(ucc_coll_args_t, op);
	MEMBER(ucc_coll_args_t, flags);
	MEMBER(ucc_coll_args_t, root);
	MEMBER(ucc_coll_args_t, tag);
	MEMBER(ucc_coll_args_t, cb);
	MEMBER(ucc_coll_args_t, timeout);
	MEMBER(ucc_coll_args_t, active_set);
	MEMBER(ucc_coll_req_t, status);
}

int main(void)
{
	numbers_of_results();
	numbers_of_making();
	numbers_of_types();
	numbers_of_calls();
	/* The plugin's structs have space for the members of later versions. */
	fprintf(stderr, "%zu %zu\n", sizeof(ucc_team_params_t), sizeof(ucc_coll_args_t));
	return 0;
}
