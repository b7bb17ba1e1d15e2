/* SPDX-License-Identifier: BSD-3-Clause */
/* hello.c - the smallest program: every rank adds its number.  coll run -n 4 hello */
#include <coll/coll.h>
#include <stdio.h>

int main(void)
{
	coll_comm_t comm;
	const char *backend;
	int32_t rank, sum;

	if (coll_comm_init_env(&comm, NULL) || coll_comm_user_rank(comm, &rank) ||
	    coll_comm_backend(comm, &backend) ||
	    coll_allreduce(&rank, &sum, 1, COLL_INT32, COLL_SUM, comm, NULL) || coll_sync(comm)) {
		fprintf(stderr, "%s\n", coll_get_last_error(NULL));
		return 1;
	}
	printf("rank %d: the sum of all ranks is %d, backend %s\n", rank, sum, backend);
	return coll_comm_destroy(comm);
}
