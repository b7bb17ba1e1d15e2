/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce_call_test.c - the promises of reduce.h around the kernels: the choice of a kernel,
 * averages, the caller's floating-point settings, examples from the formats' definitions.
 */
#include <fenv.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif
#include "reduce/reduce.h"
#include "reduce/kernels.h"
#include "reduce_inputs.h"

/* Reduces one element by reduce(); takes and returns codes. */
static uint64_t test_one(int dtype, int op, uint64_t a, uint64_t b)
{
	reduce(&a, &a, &b, 1, dtype, op);
	return a;
}

static void divide(void *dst, const void *src, size_t count, int dtype, int n)
{
	reduce_run(reduce_kernel(dtype, COLL_AVG), dst, src, src, count * coll_dtype_size(dtype),
		   n);
}

/* x / 2 + y, and x / 2, of float16. */
static uint64_t test_scaled_one(int dtype, uint64_t x, uint64_t y)
{
	reduce_scaled(&x, &x, &y, coll_dtype_size(dtype), dtype, REDUCE_SCALED_SUM, 2);
	return x;
}

static uint64_t test_scaled_zero(uint64_t x)
{
	divide(&x, &x, 1, COLL_FLOAT16, 2);
	return x;
}

static void test_examples(void)
{
	is_int((int64_t)test_one(COLL_INT8, COLL_SUM, 127, 1), 128, "int8: 127 + 1 wraps to -128");
	is_int((int64_t)test_one(COLL_FLOAT16, COLL_SUM, 0x7bff, 0x7bff), 0x7c00,
	       "float16: 65504 + 65504 is infinity");
	is_int((int64_t)test_one(COLL_FLOAT16, COLL_SUM, 0x6800, 0x3c00), 0x6800,
	       "float16: 2048 + 1 ties to the even 2048");
	is_int((int64_t)test_one(COLL_FLOAT16, COLL_PROD, 0x0001, 0x3e00), 0x0002,
	       "float16: smallest subnormal * 1.5 ties to the even 2");
	is_int((int64_t)test_one(COLL_BFLOAT16, COLL_SUM, 0x3f80, 0x3b80), 0x3f80,
	       "bfloat16: 1 + 1/256 ties to the even 1");
	is_int((int64_t)test_one(COLL_FLOAT8E4M3, COLL_SUM, 0x7e, 0x7e), 0x7e,
	       "float8e4m3: 448 + 448 stays 448");
	is_int((int64_t)test_one(COLL_FLOAT8E5M2, COLL_SUM, 0x7b, 0x7b), 0x7b,
	       "float8e5m2: 57344 + 57344 stays 57344");
	is_int((int64_t)test_one(COLL_FLOAT8E5M2, COLL_SUM, 0x7c, 0x3c), 0x7c,
	       "float8e5m2: infinity + 1 is infinity");
	is_int((int64_t)test_one(COLL_FLOAT8E5M2, COLL_SUM, 0xfc, 0x7b), 0xfc,
	       "float8e5m2: -infinity + 57344 is -infinity");
	is_int((int64_t)test_one(COLL_FLOAT8E5M2, COLL_SUM, 0x7c, 0xfc), 0x7e,
	       "float8e5m2: infinity - infinity is NaN");
	is_int((int64_t)test_one(COLL_FLOAT8E5M2, COLL_PROD, 0x7b, 0x7b), 0x7b,
	       "float8e5m2: 57344 * 57344 stays 57344");
	is_int((int64_t)test_one(COLL_FLOAT8E5M2, COLL_MAX, 0x7c, 0x3c), 0x7c,
	       "float8e5m2: the larger of infinity and 1 is infinity");
	is_int((int64_t)test_one(COLL_FLOAT32, COLL_MIN, 0x80000000, 0), 0x80000000,
	       "float32: min(-0, 0) is -0");
	is_int((int64_t)test_one(COLL_FLOAT32, COLL_MIN, 0, 0x80000000), 0x80000000,
	       "float32: min(0, -0) is -0");
	is_int((int64_t)test_one(COLL_FLOAT32, COLL_MAX, 0x3f800000, 0xff800001), 0x7fc00000,
	       "float32: max(1, NaN) is NaN");
	is_int((int64_t)test_one(COLL_FLOAT32, COLL_MAX, 0xff800001, 0x3f800000), 0x7fc00000,
	       "float32: max(NaN, 1) is NaN");
	is_int((int64_t)test_one(COLL_FLOAT32, COLL_SUM, 1, 1), 2, "float32: subnormals are kept");
	is_int((int64_t)test_one(COLL_INT32, COLL_AVG, 3, 4), 7, "an average is summed up first");
	is_int((int64_t)test_one(COLL_INT64, COLL_LAND, 1u << 31, 4), 1, "int64: 2^31 land 4 is 1");
	is_int((int64_t)test_one(COLL_BOOL, COLL_LXOR, 2, 1), 0, "bool: two true bytes, lxor");
	is_int((int64_t)test_one(COLL_BOOL, COLL_SUM, 128, 128), 1, "bool: a sum is or");
	is_int((int64_t)test_one(COLL_BOOL, COLL_MAX, 0, 2), 1, "bool: max is or");
	is_int((int64_t)test_one(COLL_BOOL, COLL_PROD, 16, 16), 1, "bool: a product is and");
	is_int((int64_t)test_one(COLL_BOOL, COLL_MIN, 2, 0), 0, "bool: min is and");
}

static void test_divide(void)
{
	static const int n[] = {1, 2, 49, 10000, 70000, INT32_MAX};
	uint64_t a[64], got[64], want[64];
	size_t j, count;
	int good;

	for (int i = 0; i < oracle_format_count; i++) {
		if (!reduce_supports(oracle_formats[i].dtype, COLL_AVG))
			continue;
		count = sizeof(a) / (size_t)oracle_formats[i].size;
		inputs_fill(&oracle_formats[i], a, count);
		good = 1;
		for (j = 0; j < 6; j++) {
			/* a whole quotient: a result one step too small becomes the integer 0 */
			oracle_store(&oracle_formats[i], a, 0, (uint64_t)n[j]);
			memcpy(got, a, sizeof(a));
			divide(got, got, count, oracle_formats[i].dtype, n[j]);
			oracle_reduce_all(&oracle_formats[i], COLL_AVG, want, a, a, count, n[j]);
			good &= memcmp(got, want, sizeof(want)) == 0;
			memset(got, 0, sizeof(got));
			divide(got, a, count, oracle_formats[i].dtype, n[j]);
			good &= memcmp(got, want, sizeof(want)) == 0;
		}
		ok(good, "%s: division, in place and out of place",
		   coll_dtype_name(oracle_formats[i].dtype));
		is_int(reduce_lookup_scaled(&reduce_generic, oracle_formats[i].dtype,
					    REDUCE_SCALED_SUM) != NULL,
		       oracle_formats[i].mantissa != 0, "%s: floating or not",
		       coll_dtype_name(oracle_formats[i].dtype));
	}
}

/* left / n is rounded to the type before right is added, on every instruction set. */
static void test_scaled_sum(void)
{
	enum { N = 3, MANY = 4099 };
	static uint64_t a[MANY], b[MANY], got[MANY], want[MANY];
	const struct reduce_kernels *k;

	for (int i = 0; i < oracle_format_count; i++) {
		const struct oracle_format *f = &oracle_formats[i];
		size_t bytes = MANY * (size_t)f->size;
		int good = 1;

		if (!f->mantissa)
			continue;
		inputs_fill(f, a, MANY);
		inputs_fill(f, b, MANY);
		oracle_reduce_all(f, COLL_AVG, want, a, a, MANY, N);
		oracle_reduce_all(f, COLL_SUM, want, want, b, MANY, 1);
		for (int isa = 0; (k = reduce_usable(isa)); isa++) {
			reduce_lookup_scaled(k, f->dtype, REDUCE_SCALED_SUM)(got, a, b, bytes, N);
			good &= memcmp(got, want, bytes) == 0;
		}
		memcpy(got, b, bytes);
		reduce_scaled(got, a, got, bytes, f->dtype, REDUCE_SCALED_SUM, N);
		good &= memcmp(got, want, bytes) == 0;
		memcpy(got, a, bytes);
		reduce_scaled(got, got, b, bytes, f->dtype, REDUCE_SCALED_SUM, N);
		good &= memcmp(got, want, bytes) == 0;
		ok(good, "%s: a scaled sum rounds twice, in place too", coll_dtype_name(f->dtype));
		good = 1;
		oracle_reduce_all(f, COLL_AVG, want, a, a, MANY, N);
		oracle_reduce_all(f, COLL_AVG, got, b, b, MANY, N);
		oracle_reduce_all(f, COLL_SUM, want, want, got, MANY, 1);
		for (int isa = 0; (k = reduce_usable(isa)); isa++) {
			reduce_lookup_scaled(k, f->dtype, REDUCE_SCALED_PAIR)(got, a, b, bytes, N);
			good &= memcmp(got, want, bytes) == 0;
		}
		memcpy(got, a, bytes);
		reduce_scaled(got, got, b, bytes, f->dtype, REDUCE_SCALED_PAIR, N);
		good &= memcmp(got, want, bytes) == 0;
		ok(good, "%s: so does a scaled pair", coll_dtype_name(f->dtype));
	}
	is_int((int64_t)test_scaled_one(COLL_FLOAT16, 0x78e2, test_scaled_zero(0x78e2)), 0x78e2,
	       "float16: the average of 40000 and 40000 is 40000");
}

static void test_supports(void)
{
	int dtype, op, known, whole, good = 1;

	for (dtype = -2; dtype < 300; dtype++) {
		if (oracle_parts(dtype) > 1) /* see reduce_two_test.c */
			continue;
		for (op = -2; op < 300; op++) {
			known = whole = 0;
			for (int i = 0; i < oracle_format_count; i++)
				if (oracle_formats[i].dtype == dtype) {
					known = 1;
					whole = !oracle_formats[i].mantissa;
				}
			known &= dtype == COLL_BOOL
					 ? (op >= COLL_SUM && op <= COLL_MIN) ||
						   (op >= COLL_LAND && op <= COLL_LXOR)
					 : (op >= COLL_SUM && op <= COLL_AVG) ||
						   (whole && op >= COLL_BAND && op <= COLL_LXOR);
			good &= reduce_supports(dtype, op) == known;
		}
	}
	ok(good, "reduce_supports: every type and operation, bitwise ones for integers only, of "
		 "bool neither these nor averages");
}

static void test_names(void)
{
	static const struct {
		coll_dtype_t dtype;
		size_t size;
	} types[] = {{COLL_INT8, sizeof(int8_t)},
		     {COLL_UINT8, sizeof(uint8_t)},
		     {COLL_INT16, sizeof(int16_t)},
		     {COLL_UINT16, sizeof(uint16_t)},
		     {COLL_INT32, sizeof(int32_t)},
		     {COLL_UINT32, sizeof(uint32_t)},
		     {COLL_INT64, sizeof(int64_t)},
		     {COLL_UINT64, sizeof(uint64_t)},
		     {COLL_BOOL, sizeof(_Bool)},
		     {COLL_FLOAT16, 2},
		     {COLL_BFLOAT16, 2},
		     {COLL_FLOAT8E4M3, 1},
		     {COLL_FLOAT8E5M2, 1},
		     {COLL_FLOAT32, sizeof(float)},
		     {COLL_FLOAT64, sizeof(double)}};
	int good = 1;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		good &= coll_dtype_size(types[i].dtype) == types[i].size;
	ok(good, "coll_dtype_size");
	is_int((int64_t)coll_dtype_size(12), 0, "an unknown type has no size");
	is_str(coll_dtype_name(COLL_BFLOAT16), "bfloat16", "coll_dtype_name");
	is_str(coll_dtype_name(-1), "?", "an unknown type's name");
	is_str(coll_op_name(COLL_AVG), "avg", "coll_op_name");
	is_str(coll_op_name(COLL_LXOR), "lxor", "coll_op_name of a logical operation");
	is_int((int64_t)sizeof(_Bool), (int64_t)coll_dtype_size(COLL_BOOL), "a bool is C's");
	is_str(coll_op_name(256), "?", "an unknown operation's name");
}

/*
 * The calling thread's floating-point settings do not change results, and reductions do not change
 * the settings.
 */
static void test_rounding(void)
{
	uint32_t a = 0x3f800001, b = 0x33000000;

	fesetround(FE_UPWARD);
	reduce(&a, &a, &b, 1, COLL_FLOAT32, COLL_SUM);
	ok(fegetround() == FE_UPWARD, "the caller's rounding mode is put back");
	fesetround(FE_TONEAREST);
	is_int(a, 0x3f800001, "the caller's rounding mode does not count");
}

static void test_flushing(void)
{
#if defined(__SSE2__)
	const unsigned flush = 0x8040; /* FTZ and DAZ */
	uint32_t tiny = 1;

	_mm_setcsr(_mm_getcsr() | flush);
	if ((_mm_getcsr() & flush) != flush) {
		skip(2, "subnormals cannot be flushed here");
		return;
	}
	reduce(&tiny, &tiny, &tiny, 1, COLL_FLOAT32, COLL_SUM);
	ok((_mm_getcsr() & flush) == flush, "the caller's flushing of subnormals is put back");
	_mm_setcsr(_mm_getcsr() & ~flush);
	is_int(tiny, 2, "the caller's flushing of subnormals does not count");
#else
	skip(2, "flushing of subnormals is set here on x86 only");
#endif
}

static void *test_thread(void *name)
{
	*(const char **)name = reduce_isa();
	return NULL;
}

static void test_threads(void)
{
	enum { THREADS = 8 };
	const char *names[THREADS];
	pthread_t threads[THREADS];
	int i, good = 1;

	for (i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, test_thread, &names[i]))
			bail_out("cannot create a thread");
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < THREADS; i++)
		good &= strcmp(names[i], reduce_usable(0)->isa) == 0;
	ok(good, "threads that come first together all find %s", reduce_usable(0)->isa);
}

/* The library reads COLL_ISA when it first uses the kernels, so each value runs in a child. */
static void test_isa(const char *value, const char *want, const char *warning)
{
	char text[512] = "";
	int fds[2], status = 0;
	pid_t pid;

	if (pipe(fds) || (pid = fork()) < 0)
		bail_out("cannot make a child");
	if (!pid) {
		dup2(fds[1], STDERR_FILENO);
		setenv("COLL_ISA", value, 1);
		_exit(strcmp(reduce_isa(), want) != 0);
	}
	close(fds[1]);
	while (read(fds[0], text + strlen(text), sizeof(text) - 1 - strlen(text)) > 0)
		continue;
	close(fds[0]);
	waitpid(pid, &status, 0);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "COLL_ISA='%s': %s", value, want);
	if (warning)
		has_str(text, warning, "COLL_ISA='%s' is warned of", value);
	else
		is_str(text, "", "COLL_ISA='%s' needs no warning", value);
}

static void test_choice(void)
{
	const struct reduce_kernels *k;
	int i;

	for (i = 0; (k = reduce_usable(i)); i++)
		test_isa(k->isa, k->isa, NULL);
	test_isa("", reduce_usable(0)->isa, NULL);
	test_isa("avx1024", reduce_usable(0)->isa, "avx1024");
}

static void test_nothing(void)
{
	uint64_t a[64], b[64], kept[64];
	int wrong = 0;

	for (int i = 0; i < oracle_format_count; i++) {
		const int dtype = oracle_formats[i].dtype;

		inputs_fill(&oracle_formats[i], a, sizeof(a) / (size_t)oracle_formats[i].size);
		memcpy(kept, a, sizeof(a));
		memset(b, 0x35, sizeof(b)); /* no neutral element of an operation in any type */
		for (int op = COLL_SUM; op <= COLL_LXOR; op++)
			if (reduce_supports(dtype, op))
				reduce(a, a, b, 0, dtype, op);
		if (reduce_supports(dtype, COLL_AVG))
			divide(a, a, 0, dtype, 2);
		wrong += memcmp(a, kept, sizeof(a)) != 0;
	}
	is_int(wrong, 0, "no elements: no type's result is written");
	/* A kernel that reads or writes here ends the program. */
	reduce(NULL, NULL, NULL, 0, COLL_FLOAT32, COLL_SUM);
	divide(NULL, NULL, 0, COLL_FLOAT16, 2);
	reduce_scaled(NULL, NULL, NULL, 0, COLL_FLOAT16, REDUCE_SCALED_SUM, 2);
}

static void test_big(void)
{
	size_t count = ((size_t)1 << 31) + 5;
	int8_t *a, *b;

	if (!getenv("COLL_TEST_BIG")) {
		skip(1, "more than 2^31 elements: COLL_TEST_BIG=1 would take 4.3 GB of memory");
		return;
	}
	a = inputs_alloc(count);
	b = inputs_alloc(count);
	memset(a, 1, count);
	memset(b, 2, count);
	a[count - 1] = 5;
	reduce(a, a, b, count, COLL_INT8, COLL_SUM);
	ok(a[0] == 3 && memcmp(a, a + 1, count - 2) == 0 && a[count - 1] == 7,
	   "more than 2^31 elements");
	free(a);
	free(b);
}

int main(void)
{
	unsetenv("COLL_ISA");
	test_choice();
	test_threads();
	test_examples();
	test_divide();
	test_scaled_sum();
	test_supports();
	test_names();
	test_rounding();
	test_flushing();
	test_nothing();
	test_big();
	return done_testing();
}
