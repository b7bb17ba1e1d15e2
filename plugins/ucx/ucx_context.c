/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx_context.c - UCX's configuration, its log messages, and its transports on this host. */
#include "ucx.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ----------------------------------------------------------------- log messages -- */

static _Thread_local const coll_host_t *ucx_log_host;
static _Thread_local char
	ucx_last_warning[200]; /* UCX's last warning or error since ucx_log_begin */

/* The open endpoints.  A message of UCX in a thread without ucx_log_host goes to the log of one of these. */
static pthread_mutex_t ucx_log_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ucx *ucx_log_endpoints;

void ucx_log_handler_add(struct ucx *u)
{
	pthread_mutex_lock(&ucx_log_lock);
	u->next_log_endpoint = ucx_log_endpoints;
	ucx_log_endpoints = u;
	pthread_mutex_unlock(&ucx_log_lock);
}

void ucx_log_handler_remove(struct ucx *u)
{
	struct ucx **at = &ucx_log_endpoints;

	pthread_mutex_lock(&ucx_log_lock);
	while (*at && *at != u)
		at = &(*at)->next_log_endpoint;
	if (*at)
		*at = u->next_log_endpoint;
	pthread_mutex_unlock(&ucx_log_lock);
}

const coll_host_t *ucx_log_begin(const coll_host_t *host)
{
	const coll_host_t *before = ucx_log_host;

	ucx_log_host = host;
	ucx_last_warning[0] = '\0';
	return before;
}

void ucx_log_end(const coll_host_t *before)
{
	ucx_log_host = before;
}

static int32_t ucx_code(ucs_status_t status)
{
	switch (status) {
	case UCS_ERR_NO_MEMORY: return COLL_ERR_NO_MEMORY;
	case UCS_ERR_UNSUPPORTED: return COLL_ERR_UNSUPPORTED;
	case UCS_ERR_TIMED_OUT: return COLL_ERR_TIMEOUT;
	case UCS_ERR_CONNECTION_RESET:
	case UCS_ERR_ENDPOINT_TIMEOUT:
	case UCS_ERR_NOT_CONNECTED: return COLL_ERR_PEER_LOST;
	default: return COLL_ERR_SYSTEM;
	}
}

int32_t ucx_refused(coll_error_t *err, ucs_status_t status, const char *what)
{
	return error_fill(err, ucx_code(status),
			  "%s: %s%s%s (UCX; its variables, such as UCX_TLS and "
			  "UCX_NET_DEVICES, choose transports)",
			  what, ucx_lib.ucs_status_string(status), ucx_last_warning[0] ? ": " : "",
			  ucx_last_warning);
}

static void ucx_log_text(const coll_host_t *host, ucs_log_level_t level, const char *text)
{
	kit_log(host, level <= UCS_LOG_LEVEL_WARN ? COLL_LOG_INFO : COLL_LOG_DEBUG, "UCX: %s",
		text);
}

/* Joins the lines of a message, since the host's log takes one line.  UCX 1.18 has messages of two lines. */
static void ucx_join_lines(char *text)
{
	size_t length = strlen(text);

	while (length && text[length - 1] == '\n')
		text[--length] = '\0';
	for (; *text; text++)
		if (*text == '\n')
			*text = ' ';
}

/* Passes UCX's messages to the host's log.  If the user set UCX_LOG_LEVEL, UCX prints them itself. */
static int ucx_handle_log(const char *file, unsigned line, const char *function,
			  ucs_log_level_t level, const void *component, const char *message,
			  va_list args)
{
	char text[400];
	int logged = 0;

	(void)file;
	(void)line;
	(void)function;
	(void)component;
	if (level == UCS_LOG_LEVEL_FATAL || level > UCS_LOG_LEVEL_INFO)
		return 1;
	vsnprintf(text, sizeof(text), message, args);
	ucx_join_lines(text);
	if (level <= UCS_LOG_LEVEL_WARN)
		snprintf(ucx_last_warning, sizeof(ucx_last_warning), "%.199s", text);
	if (ucx_log_host) {
		ucx_log_text(ucx_log_host, level, text);
		return 0;
	}
	if (pthread_mutex_trylock(&ucx_log_lock))
		return 1;
	logged = ucx_log_endpoints != NULL;
	if (logged)
		ucx_log_text(ucx_log_endpoints->host, level, text);
	pthread_mutex_unlock(&ucx_log_lock);
	return !logged;
}

void ucx_log_handler_install(void)
{
	if (!secure_getenv("UCX_LOG_LEVEL"))
		ucx_lib.ucs_log_push_handler(ucx_handle_log);
}

/* ------------------------------------------------------------------- the context -- */

/* The largest file of UCX's shared memory is about 5 MiB by default (UCX 1.13: killed with 4 MiB, not with 8). */
enum { UCX_FILE_MOST = 64 << 20 };

/* Facts about the transports that UCX uses here. */
struct ucx_transports {
	int trial;    /* 1: not known, the context is to show them */
	int one_host; /* 1: all ranks share one host, so no port is needed */
	int shm, tcp; /* 1: UCX has this transport */
	int rdma;     /* 1: UCX has a transport of InfiniBand and RoCE */
	int no_posix; /* 1: this process cannot make the files of UCX's shared memory */
	char devices
		[UCX_DEVICES_SIZE]; /* the network devices to use, separated by commas; "": all */
};

/* Changes a setting of UCX, unless the user has set its variable. */
static void ucx_set(ucp_config_t *config, const char *variable, const char *key, const char *value)
{
	if (!secure_getenv(variable))
		ucx_lib.ucp_config_modify(config, key, value);
}

/* Changes a setting of UCX's TCP.  key begins with "TCP_", which UCX's keys lack before 1.17. */
static void ucx_set_tcp(ucp_config_t *config, unsigned minor, const char *key, const char *value)
{
	char variable[40];

	snprintf(variable, sizeof(variable), "UCX_%s", key);
	ucx_set(config, variable, key + (minor < 17 ? strlen("TCP_") : 0), value);
}

/* Can ranks of one host see the ends of each other's processes? */
static int ucx_sees_processes(void)
{
	int fd = -1;

#ifdef SYS_pidfd_open
	fd = descriptor_lift((int)syscall(SYS_pidfd_open, getpid(), 0));
#endif
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/*
 * UCX's own probes are data.  Over TCP the kernel sends an unacknowledged probe again for a quarter of an hour,
 * and sends no probes of its own meanwhile.  So with TCP between the hosts only the kernel probes.
 */
static void ucx_configure_keepalive(const coll_host_t *host, ucp_config_t *config,
				    const struct ucx_transports *use, unsigned minor)
{
	int64_t alive_us = host->option_int(host, "keepalive");
	int by_kernel = use->tcp && !use->rdma && ucx_sees_processes();
	char text[32] = "inf", count[8];

	snprintf(count, sizeof(count), "%d", UCX_PROBES);
	if (alive_us)
		snprintf(text, sizeof(text), "%lldus", (long long)alive_us);
	ucx_set(config, "UCX_KEEPALIVE_INTERVAL", "KEEPALIVE_INTERVAL", by_kernel ? "inf" : text);
	if (!use->tcp)
		return;
	ucx_set_tcp(config, minor, "TCP_KEEPIDLE", text);
	ucx_set_tcp(config, minor, "TCP_KEEPINTVL", text);
	ucx_set_tcp(config, minor, "TCP_KEEPCNT", count);
}

/* Configures UCX: by default its shared memory does not report dead peers, and its TCP takes only short frames. */
static void ucx_configure(const coll_host_t *host, ucp_config_t *config,
			  const struct ucx_transports *use)
{
	unsigned major, minor, release;

	ucx_lib.ucp_get_version(&major, &minor, &release);
	ucx_configure_keepalive(host, config, use, minor);
	/* UCX starts its thread for its cache of registrations: see ucx_thread_reserve. */
	if (use->trial)
		ucx_set(config, "UCX_RCACHE_ENABLE", "RCACHE_ENABLE", "n");
	/* With TCP, UCX would listen on every address of the host as long as the worker lives. */
	if (use->one_host)
		ucx_set(config, "UCX_TLS", "TLS", use->no_posix ? "^tcp,posix" : "^tcp");
	else if (use->no_posix)
		ucx_set(config, "UCX_TLS", "TLS", "^posix");
	if (!use->one_host && use->devices[0])
		ucx_set(config, "UCX_NET_DEVICES", "NET_DEVICES", use->devices);
	/* Else connect() would block for more than two minutes if nobody answers. */
	if (use->tcp)
		ucx_set_tcp(config, minor, "TCP_CONN_NB", "y");
	if (use->shm)
		ucx_set(config, "UCX_MM_ERROR_HANDLING", "MM_ERROR_HANDLING", "y");
	/* A sent segment must fit into a receive segment, whose default is 64K. */
	if (use->tcp && !secure_getenv("UCX_TCP_RX_SEG_SIZE"))
		ucx_set_tcp(config, minor, "TCP_TX_SEG_SIZE", "64k");
}

static ucs_status_t ucx_context_make(const coll_host_t *host, uint32_t nranks,
				     const struct ucx_transports *use, ucp_context_h *context)
{
	const ucp_params_t params = {
		.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
		.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
		.estimated_num_eps = nranks,
	};
	ucp_config_t *config;
	ucs_status_t status = ucx_lib.ucp_config_read(NULL, NULL, &config);

	if (status != UCS_OK)
		return status;
	ucx_configure(host, config, use);
	status = ucx_lib.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, context);
	ucx_lib.ucp_config_release(config);
	return status;
}

/* Returns UCX's description of the context, which the caller frees; NULL without memory. */
static char *ucx_context_text(ucp_context_h context)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return NULL;
	ucx_lib.ucp_context_print_info(context, stream);
	fclose(stream);
	return text;
}

static int32_t ucx_context_make_logged(const coll_host_t *host, uint32_t nranks,
				       const struct ucx_transports *use, ucp_context_h *context,
				       coll_error_t *err)
{
	const coll_host_t *before = ucx_log_begin(host);
	ucs_status_t status = ucx_context_make(host, nranks, use, context);

	ucx_log_end(before);
	if (status == UCS_OK)
		return COLL_SUCCESS;
	*context = NULL;
	return ucx_refused(err, status, "cannot start UCX");
}

int32_t ucx_context_try(const coll_host_t *host, ucp_context_h *context, coll_error_t *err)
{
	const struct ucx_transports use = {.trial = 1};

	return ucx_context_make_logged(host, 1, &use, context, err);
}

/*
 * Makes two contexts: the first shows the transports, the second has their settings.  UCX warns of a setting for a
 * transport that it does not use.
 */
int32_t ucx_context_open(const coll_host_t *host, uint32_t nranks, int one_host,
			 ucp_context_h *context, coll_error_t *err)
{
	struct ucx_transports use = {.trial = 1, .one_host = one_host};
	char interface_name[UCX_INTERFACE_SIZE];
	int32_t code = ucx_find_interface(host, interface_name, err);
	char *text;

	if (!code)
		code = ucx_context_make_logged(host, 1, &use, context, err);
	if (code)
		return code;
	text = ucx_context_text(*context);
	use.trial = 0;
	use.shm = text &&
		  (strstr(text, "- posix/") || strstr(text, "- sysv/") || strstr(text, "- xpmem/"));
	use.tcp = text && strstr(text, "- tcp/");
	use.rdma = text && (strstr(text, "- rc") || strstr(text, "- dc") || strstr(text, "- ud"));
	use.no_posix = text && strstr(text, "- posix/") && !descriptor_may_grow(UCX_FILE_MOST);
	if (text && interface_name[0])
		ucx_list_devices(text, interface_name, use.devices);
	free(text);
	ucx_lib.ucp_cleanup(*context);
	*context = NULL;
	if (use.no_posix && secure_getenv("UCX_TLS"))
		return error_fill(
			err, COLL_ERR_SYSTEM,
			"UCX's transport posix, which UCX_TLS allows, makes files of up to "
			"%d MiB, but this process may not (ulimit -f): raise the limit, or "
			"leave posix out (UCX_TLS=^posix)",
			UCX_FILE_MOST >> 20);
	if (use.no_posix)
		kit_log(host, COLL_LOG_INFO,
			"UCX's transport posix stays unused: its files in shared memory may "
			"exceed this process's limit of file sizes (ulimit -f)");
	return ucx_context_make_logged(host, nranks, &use, context, err);
}

uint32_t ucx_context_memory(ucp_context_h context)
{
	ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
	uint32_t memory = COLL_MEM_HOST;

	if (ucx_lib.ucp_context_query(context, &attr) != UCS_OK)
		return memory;
	if (attr.memory_types & ((uint64_t)1 << UCS_MEMORY_TYPE_CUDA))
		memory |= COLL_MEM_CUDA;
	if (attr.memory_types & ((uint64_t)1 << UCS_MEMORY_TYPE_CUDA_MANAGED))
		memory |= COLL_MEM_CUDA_MANAGED;
	return memory;
}

/*
 * Without its cache of registrations UCX 1.16 to 1.21 crash when a peer dies during a rendezvous, unless the memory was
 * registered by UCX's caller (openucx/ucx pull request 11485).  UCX has no cache if it may not watch the C library's
 * functions, or if the user turns the cache off.
 */
int ucx_lacks_registrations(void)
{
	const char *hooks = secure_getenv("UCX_MEM_MMAP_HOOK_MODE");
	const char *cache = secure_getenv("UCX_RCACHE_ENABLE");
	unsigned major, minor, release;

	ucx_lib.ucp_get_version(&major, &minor, &release);
	return minor >= 16 && minor <= 21 &&
	       ((hooks && !strcasecmp(hooks, "none")) || (cache && strpbrk(cache, "nN0") == cache));
}

ucs_memory_type_t ucx_memory_type(uint32_t memory)
{
	return memory == COLL_MEM_CUDA           ? UCS_MEMORY_TYPE_CUDA
	       : memory == COLL_MEM_CUDA_MANAGED ? UCS_MEMORY_TYPE_CUDA_MANAGED
						 : UCS_MEMORY_TYPE_HOST;
}

/* -------------------------------------------------------------- for `coll info` -- */

/* Appends " NAME" to the list unless the list has the name. */
static void ucx_info_add(char *list, size_t size, const char *name, size_t len)
{
	size_t used = strlen(list);

	for (const char *at = list; (at = strstr(at, name)); at++)
		if (at[len] == ' ' || !at[len])
			return;
	if (used + len + 1 < size)
		snprintf(list + used, size - used, " %.*s", (int)len, name);
}

static int ucx_info_is_cuda(const char *name)
{
	return !strncmp(name, "cuda_", 5) || !strncmp(name, "gdr_", 4);
}

/* Lists the transports in the lines "resource N : ... flags -- tcp/eth0" of UCX's description. */
static void ucx_info_transports(char *text, int cuda, char *list, size_t size)
{
	char *save = NULL;

	list[0] = '\0';
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char name[32] = "";
		char *at = strstr(line, "resource") ? strstr(line, "- ") : NULL;

		if (!at || sscanf(at + 2, "%31[^/ ]", name) != 1)
			continue;
		if (ucx_info_is_cuda(name) == cuda)
			ucx_info_add(list, size, name, strlen(name));
	}
}

int32_t ucx_info(const coll_host_t *host, char *buf, uint64_t size)
{
	char list[200] = "", gpu[100] = "";
	ucp_context_h context;
	coll_error_t err = {.size = sizeof(err)};
	char *text, *copy;
	int32_t code = ucx_library_open(host, &err);

	if (!code)
		code = ucx_context_try(host, &context, &err);
	if (code) {
		snprintf(buf, size, "%s", err.text);
		return code;
	}
	text = ucx_context_text(context);
	copy = text ? strdup(text) : NULL;
	if (copy) {
		ucx_info_transports(text, 0, list, sizeof(list));
		ucx_info_transports(copy, 1, gpu, sizeof(gpu));
	}
	snprintf(buf, size, "UCX %s; host memory:%s; CUDA memory:%s",
		 ucx_lib.ucp_get_version_string(), list,
		 ucx_context_memory(context) & COLL_MEM_CUDA ? gpu
		 : gpu[0]                                    ? " none, UCX finds no device"
			  : " none, this UCX has no CUDA transport that can be used here");
	free(copy);
	free(text);
	ucx_lib.ucp_cleanup(context);
	return COLL_SUCCESS;
}
