/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.c - opens the CUDA driver and looks up the functions that each user needs. */
#include "device/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct cuda_driver cuda_driver;

static const struct {
	const char *symbol;
	size_t at;
	unsigned users;
} driver_functions[] = {
#define DRIVER_ROW(symbol, member, arguments, users)                                               \
	{#symbol, offsetof(struct cuda_driver, member), users},
	DRIVER_TABLE(DRIVER_ROW)
#undef DRIVER_ROW
};

enum { DRIVER_FUNCTIONS = sizeof(driver_functions) / sizeof(driver_functions[0]) };

static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;
static void *driver_library; /* NULL: not open yet; the next caller tries again */

/* The lock is held. */
static void driver_load(void)
{
	driver_library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	for (int i = 0; driver_library && i < DRIVER_FUNCTIONS; i++) {
		void *symbol = dlsym(driver_library, driver_functions[i].symbol);

		memcpy((char *)&cuda_driver + driver_functions[i].at, &symbol, sizeof(symbol));
	}
}

/* The name of the first function that the user needs and the driver lacks, or NULL. */
static const char *driver_lacks(unsigned user)
{
	for (int i = 0; i < DRIVER_FUNCTIONS; i++) {
		void *symbol;

		memcpy(&symbol, (char *)&cuda_driver + driver_functions[i].at, sizeof(symbol));
		if (!symbol && driver_functions[i].users & user)
			return driver_functions[i].symbol;
	}
	return NULL;
}

enum driver_result driver_open(unsigned user, const char **why)
{
	static _Thread_local char words[256];
	enum driver_result result = DRIVER_FOUND;

	pthread_mutex_lock(&driver_lock);
	if (!driver_library)
		driver_load();
	if (!driver_library) {
		const char *sentence = dlerror();

		snprintf(words, sizeof(words), "%s", sentence ? sentence : "no reason given");
		*why = words;
		result = DRIVER_ABSENT;
	} else {
		*why = driver_lacks(user);
		result = *why ? DRIVER_INCOMPLETE : DRIVER_FOUND;
	}
	pthread_mutex_unlock(&driver_lock);
	return result;
}
