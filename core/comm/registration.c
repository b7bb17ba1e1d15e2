/* SPDX-License-Identifier: BSD-3-Clause */
/* registration.c - memory that the program has registered with a communicator. */
#include "comm/registration.h"
#include "base/error.h"
#include "base/handle.h"
#include "comm/comm.h"

#include <stdlib.h>

struct registration {
	struct registration *next, *prev; /* of the communicator */
	struct lane *lane;
	void *handle;
	void *of_backend; /* the backend's own handle, or NULL */
};

/* Both, or both NULL. */
struct registration_slots {
	int32_t (*add)(void *ep, void *ptr, uint64_t bytes, uint32_t memory, void **handle,
		       coll_error_t *err);
	void (*remove)(void *ep, void *handle);
};

static struct registration_slots registration_slots(const struct lane *lane)
{
	const coll_backend_t *b = &lane->context->plugin->backend;

	if (b->transport)
		return (struct registration_slots){b->transport->mem_register,
						   b->transport->mem_deregister};
	return (struct registration_slots){b->native->mem_register, b->native->mem_deregister};
}

/* Memory that the endpoint does not take needs no registration with the backend. */
static int registration_begin(struct registration *r, void *buf, size_t bytes)
{
	const struct registration_slots slots = registration_slots(r->lane);
	const struct context *context = r->lane->context;
	coll_error_t err;
	uint32_t kind;
	int code, device;

	error_clear(&err);
	if (!slots.add || !context->ep)
		return COLL_SUCCESS;
	kind = context_memory_kind(context, buf, &device);
	if (!kind)
		return COLL_ERR_DEVICE;
	if (!(kind & context->memory))
		return COLL_SUCCESS;
	code = slots.add(context->ep, buf, bytes, kind, &r->of_backend, &err);
	return code ? error_take(code, &err) : COLL_SUCCESS;
}

static void registration_end(struct registration *r)
{
	const struct registration_slots slots = registration_slots(r->lane);

	if (r->of_backend && slots.remove && r->lane->context->ep)
		slots.remove(r->lane->context->ep, r->of_backend);
	free(r);
}

static int registration_check(const void *buf, size_t bytes)
{
	if (!buf)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_comm_register: buf is NULL, bytes is %zu", bytes);
	if (bytes > PTRDIFF_MAX || (uintptr_t)buf > UINTPTR_MAX - bytes)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_comm_register: bytes is %zu: a buffer at buf cannot be so "
				 "large; pass the bytes of the buffer",
				 bytes);
	return COLL_SUCCESS;
}

int registration_add(struct lane *lane, void *buf, size_t bytes, void **handle)
{
	struct registration *r;
	int code;

	*handle = NULL;
	if (!bytes)
		return COLL_SUCCESS;
	code = registration_check(buf, bytes);
	if (code)
		return code;
	r = calloc(1, sizeof(*r));
	if (r) {
		r->lane = lane;
		r->handle = handle_new(HANDLE_REGISTRATION, r);
	}
	if (!r || !r->handle) {
		free(r);
		return handle_none("a registration");
	}
	code = registration_begin(r, buf, bytes);
	if (code) {
		handle_pin(HANDLE_REGISTRATION, r->handle);
		handle_end(r->handle, "a registration");
		free(r);
		return code;
	}
	r->next = lane->registrations;
	if (r->next)
		r->next->prev = r;
	lane->registrations = r;
	*handle = r->handle;
	return COLL_SUCCESS;
}

int registration_is_of(const struct lane *lane, void *handle)
{
	const struct registration *r = handle ? handle_pin(HANDLE_REGISTRATION, handle) : NULL;
	const int is = r && r->lane == lane;

	if (r)
		handle_unpin(handle);
	return is;
}

int registration_remove(struct lane *lane, void *handle)
{
	struct registration *r;

	if (!handle)
		return COLL_SUCCESS;
	r = handle_pin(HANDLE_REGISTRATION, handle);
	if (!r)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_comm_deregister: handle is %s",
				 handle_trouble(handle));
	if (r->lane != lane) {
		handle_unpin(handle);
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_comm_deregister: handle is a registration of another "
				 "communicator: pass the communicator that registered the memory");
	}
	*(r->prev ? &r->prev->next : &lane->registrations) = r->next;
	if (r->next)
		r->next->prev = r->prev;
	/* Only threads that have another communicator's lock can have it pinned now, for a moment. */
	if (!handle_end(handle, "a registration"))
		registration_end(r);
	return COLL_SUCCESS;
}

void registration_remove_all(struct lane *lane)
{
	while (lane->registrations)
		registration_remove(lane, lane->registrations->handle);
}
