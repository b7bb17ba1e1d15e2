/* SPDX-License-Identifier: BSD-3-Clause */
/* list.c - all tables of checks, in the order in which the checks run within their group. */
#include <stddef.h>
#include "check/api/api.h"
#include "check/check.h"
#include "check/fault/fault.h"
#include "check/native/native.h"
#include "check/observer/observer.h"
#include "check/p2p/p2p.h"
#include "check/static/static.h"

const struct check *const check_lists[] = {
	check_file_checks,     check_table_checks,    check_options_checks,
	check_probe_checks,    check_open_checks,     check_send_checks,
	check_together_checks, check_status_checks,   check_receive_checks,
	check_progress_checks, check_sleep_checks,    check_memory_checks,
	check_close_checks,    check_exchange_checks, check_lost_checks,
	check_cancel_checks,   check_limits_checks,   check_native_checks,
	check_api_coll,        check_api_value,       check_api_message,
	check_api_group,       check_api_event,       check_api_request,
	check_api_comm,        check_api_many,        check_api_op,
	check_api_device,      check_api_fault,       NULL,
};

const struct check *const check_observer_lists[] = {
	check_observer_file_checks,
	check_observer_table_checks,
	check_observer_event_checks,
	NULL,
};
