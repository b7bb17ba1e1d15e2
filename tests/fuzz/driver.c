/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver.c - runs a fuzz target without libFuzzer: all seeds, then fuzz_runs changed seeds, the same in every run.
 *
 *   tests/fuzz/NAME_fuzz FILE...                runs the inputs in the files
 *   FUZZ_RUNS=1000000 tests/fuzz/NAME_fuzz      more changed inputs
 *   FUZZ_SEED=7 tests/fuzz/NAME_fuzz            others
 *
 * The inputs run in a child process: the input of a crash or of a hang is written to NAME_fuzz.input.
 */
#include <dirent.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "fuzz.h"
#include "../lib/tap.h"

enum { INPUT_MOST = 4096, SEEDS_MOST = 256, HANG_SECONDS = 60 };

struct input {
	size_t size;
	uint8_t bytes[INPUT_MOST];
};

static struct input seeds[SEEDS_MOST];
static int nseeds;
/* The input that is running; the parent can read it after the child has died. */
static struct {
	struct input input;
	long runs;
} * shared;

static uint64_t state;

static uint64_t driver_random(void)
{
	uint64_t x = state += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static size_t driver_below(size_t n)
{
	return n ? (size_t)(driver_random() % n) : 0;
}

/* ------------------------------------------------------------------- changing -- */

/* Makes room for n bytes at `at`, or takes them away. */
static void change_insert(struct input *in, size_t at, size_t n)
{
	if (in->size + n > INPUT_MOST)
		return;
	memmove(in->bytes + at + n, in->bytes + at, in->size - at);
	for (size_t i = 0; i < n; i++)
		in->bytes[at + i] = (uint8_t)driver_random();
	in->size += n;
}

static void change_remove(struct input *in, size_t at, size_t n)
{
	if (n > in->size - at)
		n = in->size - at;
	memmove(in->bytes + at, in->bytes + at + n, in->size - at - n);
	in->size -= n;
}

/* Writes a number of 1 to 8 bytes that is likely at a limit of the code. */
static void change_number(struct input *in, size_t at)
{
	static const uint64_t numbers[] = {
		0,        1,         7,        8,          16,        63,        64,    127,
		128,      255,       256,      1023,       1024,      4096,      65535, 65536,
		1u << 20, INT32_MAX, 1u << 31, UINT32_MAX, INT64_MAX, UINT64_MAX};
	uint64_t number = numbers[driver_below(sizeof(numbers) / sizeof(numbers[0]))];
	size_t n = (size_t)1 << driver_below(4);

	number += driver_below(3) - 1;
	if (n <= in->size - at)
		memcpy(in->bytes + at, &number, n);
}

/* Appends or inserts a part of another seed. */
static void change_splice(struct input *in, size_t at)
{
	const struct input *other = &seeds[driver_below((size_t)nseeds)];
	size_t from = driver_below(other->size), n = driver_below(other->size - from + 1);

	if (at + n > INPUT_MOST)
		return;
	memcpy(in->bytes + at, other->bytes + from, n);
	if (at + n > in->size)
		in->size = at + n;
}

static void change(struct input *in)
{
	size_t at = driver_below(in->size);

	switch (driver_below(in->size ? 8 : 1)) {
	case 0: change_insert(in, at, 1 + driver_below(8)); break;
	case 1: change_remove(in, at, 1 + driver_below(16)); break;
	case 2: change_number(in, at); break;
	case 3: change_splice(in, at); break;
	case 4: in->bytes[at] = (uint8_t)driver_random(); break;
	case 5: in->bytes[at] = (uint8_t)(in->bytes[at] + 1 - driver_below(3)); break;
	case 6: in->size = at; break;
	default: in->bytes[at] ^= (uint8_t)(1 << driver_below(8)); break;
	}
}

/* -------------------------------------------------------------------- running -- */

/* In memory of exactly its size, so that a sanitizer sees a byte read behind it. */
static void run(void)
{
	size_t size = shared->input.size;
	uint8_t *bytes = malloc(size ? size : 1);

	if (!bytes)
		exit(2);
	memcpy(bytes, shared->input.bytes, size);
	alarm(HANG_SECONDS);
	LLVMFuzzerTestOneInput(bytes, size);
	alarm(0);
	free(bytes);
	shared->runs++;
}

static void run_all(long changed)
{
	for (int i = 0; i < nseeds; i++) {
		shared->input = seeds[i];
		run();
	}
	for (long i = 0; nseeds && i < changed; i++) {
		shared->input = seeds[driver_below((size_t)nseeds)];
		for (size_t n = 1 + driver_below(6); n > 0; n--)
			change(&shared->input);
		run();
	}
}

static void read_seed(const char *path)
{
	FILE *file = nseeds < SEEDS_MOST ? fopen(path, "rb") : NULL;

	if (!file)
		bail_out("cannot read %s", path);
	seeds[nseeds].size = fread(seeds[nseeds].bytes, 1, INPUT_MOST, file);
	nseeds++;
	fclose(file);
}

/* Reads the seeds in the order of their names, so that every run is the same. */
static void read_seeds(void)
{
	const char *top = getenv("top_srcdir");
	char folder[512], path[1024];
	struct dirent **entries;
	int n;

	snprintf(folder, sizeof(folder), "%s/tests/fuzz/seeds/%s", top ? top : ".", fuzz_name);
	n = scandir(folder, &entries, NULL, alphasort);
	if (n < 0)
		bail_out("there is no folder %s", folder);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.')
			read_seed(path);
		free(entries[i]);
	}
	free(entries);
}

/* Writes the input after which the child has died. */
static void save_input(void)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s_fuzz.input", fuzz_name);
	file = fopen(path, "wb");
	if (file) {
		fwrite(shared->input.bytes, 1, shared->input.size, file);
		fclose(file);
		diag("the input is in %s", path);
	}
}

int main(int argc, char **argv)
{
	const char *runs = getenv("FUZZ_RUNS"), *seed = getenv("FUZZ_SEED");
	long changed = argc > 1 ? 0 : runs ? atol(runs) : fuzz_runs;
	int status;
	pid_t child;

	state = seed ? strtoull(seed, NULL, 0) : 1;
	for (int i = 1; i < argc; i++)
		read_seed(argv[i]);
	if (argc == 1)
		read_seeds();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		bail_out("no memory");
	child = fork();
	if (child < 0)
		bail_out("cannot fork");
	if (child == 0) {
		run_all(changed);
		exit(0);
	}
	waitpid(child, &status, 0);
	if (!ok(status == 0 && shared->runs > 0, "%s: %d seeds and %ld changed inputs", fuzz_name,
		nseeds, changed)) {
		diag("the child ended with status 0x%x after %ld inputs", (unsigned)status,
		     shared->runs);
		save_input();
	}
	munmap(shared, sizeof(*shared));
	return done_testing();
}
