/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz.h - a fuzz target: one function that gives any bytes to a parser of the library, and aborts if the parser
 * breaks a promise.  Sanitizers find the rest.
 *
 * Linked with driver.c a target is a test program: it runs its seeds and a fixed number of changed seeds.
 * `make fuzz` links it with clang's libFuzzer instead.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* libFuzzer's name for the target. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The target's name, the folder of its seeds, and the number of changed inputs that `make check` runs. */
extern const char *const fuzz_name;
extern const long fuzz_runs;

/* The bytes of an input that are still to be read.  Behind the end there are zeros. */
struct fuzz_input {
	const uint8_t *at;
	size_t left;
};

static inline void fuzz_take(struct fuzz_input *in, void *out, size_t n)
{
	size_t take = n < in->left ? n : in->left;

	memset(out, 0, n);
	if (take > 0)
		memcpy(out, in->at, take);
	in->at += take;
	in->left -= take;
}

static inline unsigned fuzz_byte(struct fuzz_input *in)
{
	uint8_t byte;

	fuzz_take(in, &byte, 1);
	return byte;
}

/* A number from 0 to most. */
static inline unsigned fuzz_up_to(struct fuzz_input *in, unsigned most)
{
	return fuzz_byte(in) % (most + 1);
}

/* Memory of n bytes, so that a sanitizer sees a byte read or written behind it. */
static inline void *fuzz_memory(size_t n)
{
	void *memory = malloc(n ? n : 1);

	if (!memory)
		exit(2);
	memset(memory, 0, n);
	return memory;
}

/* The next n bytes in such memory. */
static inline void *fuzz_copy(struct fuzz_input *in, size_t n)
{
	void *memory = fuzz_memory(n);

	fuzz_take(in, memory, n);
	return memory;
}

/* A promise of the code under test. */
static inline void fuzz_promise(int kept, const char *promise)
{
	if (kept)
		return;
	fprintf(stderr, "broken promise: %s\n", promise);
	abort();
}

#endif
