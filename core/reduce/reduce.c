/* SPDX-License-Identifier: BSD-3-Clause */
/* reduce.c - picks the kernels for this processor, once, and calls them. */
#include <pthread.h>
#include <stdatomic.h>
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
#include "base/dtype.h"
#include "base/log.h"
#include "reduce/reduce.h"
#include "reduce/kernels.h"

static pthread_once_t reduce_once = PTHREAD_ONCE_INIT;
static const struct reduce_kernels *_Atomic reduce_chosen; /* NULL until reduce_choose */

#if defined(REDUCE_X86)
static int reduce_has_avx2(void)
{
	unsigned a, b, c, d;

	/* __builtin_cpu_supports() does not know F16C on every compiler. */
	return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static int reduce_has_avx512(void)
{
	return reduce_has_avx2() && __builtin_cpu_supports("avx512f") &&
	       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
	       __builtin_cpu_supports("avx512vl");
}
#endif

const struct reduce_kernels *reduce_usable(int i)
{
#if defined(REDUCE_X86)
	__builtin_cpu_init();
	if (reduce_has_avx512() && i-- == 0)
		return &reduce_avx512;
	if (reduce_has_avx2() && i-- == 0)
		return &reduce_avx2;
#endif
	return i == 0 ? &reduce_generic : NULL;
}

static void reduce_choose(void)
{
	const char *wanted = secure_getenv("COLL_ISA");
	const struct reduce_kernels *kernels;
	int i;

	for (i = 0; wanted && (kernels = reduce_usable(i)); i++)
		if (strcmp(kernels->isa, wanted) == 0) {
			atomic_store(&reduce_chosen, kernels);
			return;
		}
	kernels = reduce_usable(0);
	atomic_store(&reduce_chosen, kernels);
	if (wanted && *wanted)
		log_warn("COLL_ISA='%s' is ignored: expected generic, avx2 or avx512, as far as "
			 "this "
			 "processor has it; using %s",
			 wanted, kernels->isa);
}

static const struct reduce_kernels *reduce_kernels(void)
{
	const struct reduce_kernels *chosen =
		atomic_load_explicit(&reduce_chosen, memory_order_acquire);

	if (chosen)
		return chosen;
	pthread_once(&reduce_once, reduce_choose);
	return atomic_load(&reduce_chosen);
}

#define REDUCE_NUMBER(number, ...) [number] = REDUCE_##number,
static const uint8_t reduce_row[] = {DTYPES(REDUCE_NUMBER)};
static const uint8_t reduce_column[] = {OPS(REDUCE_NUMBER)};

/* Opaque elements have no kernels. */
static int reduce_is_number(int dtype)
{
	const enum dtype_family family = dtype_family(dtype);

	return family != DTYPE_UNKNOWN && family != DTYPE_OPAQUE;
}

reduce_fn reduce_lookup(const struct reduce_kernels *kernels, int dtype, int op)
{
	if (!reduce_is_number(dtype) || op_family(op) == OP_UNKNOWN)
		return NULL;
	return kernels->fn[reduce_row[dtype]][reduce_column[op]];
}

reduce_fn reduce_lookup_scaled_sum(const struct reduce_kernels *kernels, int dtype)
{
	return reduce_is_number(dtype) ? kernels->fn[reduce_row[dtype]][REDUCE_SCALED_SUM] : NULL;
}

reduce_fn reduce_lookup_scaled_pair(const struct reduce_kernels *kernels, int dtype)
{
	return reduce_is_number(dtype) ? kernels->fn[reduce_row[dtype]][REDUCE_SCALED_PAIR] : NULL;
}

/*
 * Calls a kernel with the standard settings of the processor, and restores the thread's own settings afterwards: the
 * application may have changed rounding or subnormals in the thread of one rank and not in another's.
 */
static void reduce_call(reduce_fn fn, void *dst, const void *left, const void *right, size_t bytes,
			int n)
{
#if defined(__SSE2__)
	const unsigned standard = 0x1f80, flags = 0x3f;
	unsigned saved = _mm_getcsr();

	if ((saved & ~flags) != standard)
		_mm_setcsr(standard);
	fn(dst, left, right, bytes, n);
	if ((saved & ~flags) != standard)
		_mm_setcsr(saved);
#else
	fenv_t saved;

	fegetenv(&saved);
	fesetenv(FE_DFL_ENV);
	fn(dst, left, right, bytes, n);
	fesetenv(&saved);
#endif
}

reduce_fn reduce_kernel(int dtype, int op)
{
	/* reduce_supports has checked the type and the operation. */
	return reduce_kernels()
		->fn[reduce_row[dtype]][reduce_column[op == COLL_AVG ? COLL_SUM : op]];
}

void reduce_run(reduce_fn kernel, void *dst, const void *left, const void *right, size_t bytes)
{
	reduce_call(kernel, dst, left, right, bytes, 1);
}

void reduce(void *dst, const void *left, const void *right, size_t count, int dtype, int op)
{
	reduce_run(reduce_kernel(dtype, op), dst, left, right, count * coll_dtype_size(dtype));
}

void reduce_divide(void *dst, const void *src, size_t count, int dtype, int n)
{
	reduce_fn fn = reduce_lookup(reduce_kernels(), dtype, COLL_AVG);

	reduce_call(fn, dst, src, src, count * coll_dtype_size(dtype), n);
}

void reduce_scaled_sum(void *dst, const void *left, const void *right, size_t count, int dtype,
		       int n)
{
	reduce_fn fn = reduce_lookup_scaled_sum(reduce_kernels(), dtype);

	reduce_call(fn, dst, left, right, count * coll_dtype_size(dtype), n);
}

void reduce_scaled_pair(void *dst, const void *left, const void *right, size_t count, int dtype,
			int n)
{
	reduce_fn fn = reduce_lookup_scaled_pair(reduce_kernels(), dtype);

	reduce_call(fn, dst, left, right, count * coll_dtype_size(dtype), n);
}

int reduce_supports(int dtype, int op)
{
	return reduce_lookup(&reduce_generic, dtype, op) != NULL;
}

int reduce_is_floating(int dtype)
{
	return reduce_lookup_scaled_sum(&reduce_generic, dtype) != NULL;
}

const char *reduce_isa(void)
{
	return reduce_kernels()->isa;
}
