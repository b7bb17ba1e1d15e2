/* SPDX-License-Identifier: BSD-3-Clause */
/* reduce.c - picks the kernels for this processor, once, and calls them. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#if defined(REDUCE_X86)
#include <cpuid.h>
#endif
#if defined(__SSE2__)
#include <xmmintrin.h>
#else
#include <fenv.h>
#endif
#include "base/log.h"
#include "reduce/reduce.h"
#include "reduce/kernels.h"

static pthread_once_t reduce_once = PTHREAD_ONCE_INIT;
static const struct reduce_kernels *reduce_chosen; /* by reduce_choose */

const struct reduce_kernels *reduce_usable(int i)
{
#if defined(REDUCE_X86)
	unsigned a, b, c, d;
	int avx2, avx512;

	__builtin_cpu_init();
	__cpuid(1, a, b, c, d); /* __builtin_cpu_supports() does not know F16C on every compiler */
	avx2 = __builtin_cpu_supports("avx2") && (c & bit_F16C);
	avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
	if (avx512 && i-- == 0)
		return &reduce_avx512;
	if (avx2 && i-- == 0)
		return &reduce_avx2;
#endif
	return i == 0 ? &reduce_generic : NULL;
}

static void reduce_choose(void)
{
	const char *wanted = secure_getenv("COLL_ISA");
	const struct reduce_kernels *kernels;

	for (int i = 0; wanted && (kernels = reduce_usable(i)); i++)
		if (strcmp(kernels->isa, wanted) == 0) {
			reduce_chosen = kernels;
			return;
		}
	reduce_chosen = reduce_usable(0);
	if (wanted && *wanted)
		log_warn("COLL_ISA='%s' is ignored: expected generic, avx2 or avx512, as far as "
			 "this "
			 "processor has it; using %s",
			 wanted, reduce_chosen->isa);
}

/* The rows and columns of the numbers of coll.h.  Row 0 and column 0, of all other numbers, have no kernels. */
#define REDUCE_NUMBER(number, ...) [number] = REDUCE_##number,
static const uint8_t reduce_row[] = {DTYPES(REDUCE_NUMBER)};
static const uint8_t reduce_column[] = {OPS(REDUCE_NUMBER)};

reduce_fn reduce_lookup(const struct reduce_kernels *kernels, int dtype, int op)
{
	const int row = dtype >= 0 && (size_t)dtype < sizeof(reduce_row) ? reduce_row[dtype] : 0;
	const int column = op >= 0 && (size_t)op < sizeof(reduce_column) ? reduce_column[op] : 0;

	return kernels->fn[row][column];
}

reduce_fn reduce_lookup_scaled(const struct reduce_kernels *kernels, int dtype, int column)
{
	const int row = dtype >= 0 && (size_t)dtype < sizeof(reduce_row) ? reduce_row[dtype] : 0;

	return kernels->fn[row][column];
}

reduce_fn reduce_kernel(int dtype, int op)
{
	pthread_once(&reduce_once, reduce_choose);
	return reduce_lookup(reduce_chosen, dtype, op);
}

void reduce_run(reduce_fn kernel, void *dst, const void *left, const void *right, size_t bytes,
		int n)
{
#if defined(__SSE2__)
	const unsigned standard = 0x1f80, flags = 0x3f;
	unsigned saved = _mm_getcsr();

	if ((saved & ~flags) != standard)
		_mm_setcsr(standard);
	kernel(dst, left, right, bytes, n);
	if ((saved & ~flags) != standard)
		_mm_setcsr(saved);
#else
	fenv_t saved;

	fegetenv(&saved);
	fesetenv(FE_DFL_ENV);
	kernel(dst, left, right, bytes, n);
	fesetenv(&saved);
#endif
}

void reduce(void *dst, const void *left, const void *right, size_t count, int dtype, int op)
{
	reduce_run(reduce_kernel(dtype, op == COLL_AVG ? COLL_SUM : op), dst, left, right,
		   count * coll_dtype_size(dtype), 1);
}

void reduce_scaled(void *dst, const void *left, const void *right, size_t bytes, int dtype,
		   int column, int n)
{
	pthread_once(&reduce_once, reduce_choose);
	reduce_run(reduce_lookup_scaled(reduce_chosen, dtype, column), dst, left, right, bytes, n);
}

int reduce_supports(int dtype, int op)
{
	return reduce_lookup(&reduce_generic, dtype, op) != NULL;
}

const char *reduce_isa(void)
{
	pthread_once(&reduce_once, reduce_choose);
	return reduce_chosen->isa;
}
