/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * versions.h - all that differs between PyTorch 1.13 and 2.x.
 *
 * PyTorch 1.13 derives a process group from c10d::ProcessGroup; PyTorch 2 has c10d::Backend for it.
 * Functions that only PyTorch 2 calls are virtual in process_group.cpp without `override`.
 */
#ifndef COLL_TORCH_VERSIONS_H
#define COLL_TORCH_VERSIONS_H

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/version.h>

#define COLL_TORCH_AT_LEAST(major, minor)                                                          \
	(TORCH_VERSION_MAJOR > (major) ||                                                          \
	 (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

#if COLL_TORCH_AT_LEAST(2, 0)
#include <torch/csrc/distributed/c10d/Backend.hpp>
#endif

#include <coll/coll.h>

#include <exception>
#include <stdexcept>
#include <string>

namespace coll_torch
{

#if COLL_TORCH_AT_LEAST(2, 0)
using BackendBase = c10d::Backend;
#else
using BackendBase = c10d::ProcessGroup;
#endif

// The failure of a communicator is what PyTorch's own backends raise: torch.distributed.DistBackendError
// where this PyTorch has it, and a RuntimeError in all versions.
[[noreturn]] inline void throw_failure(const std::string &text)
{
#if COLL_TORCH_AT_LEAST(2, 0)
	C10_THROW_ERROR(DistBackendError, text);
#else
	throw std::runtime_error(text);
#endif
}

inline std::exception_ptr failure_of(const std::string &text)
{
	try {
		throw_failure(text);
	} catch (...) {
		return std::current_exception();
	}
}

// PREMUL_SUM by a tensor: PyTorch 1.13 has a list of factors, PyTorch 2 in the end one factor.
template <typename Supplement>
auto tensor_factor(const Supplement &supplement, int) -> decltype(supplement.tensor_factors[0])
{
	static const at::Tensor none;

	return supplement.tensor_factors.empty() ? none : supplement.tensor_factors[0];
}

template <typename Supplement>
auto tensor_factor(const Supplement &supplement, long) -> decltype((supplement.tensor_factor))
{
	return supplement.tensor_factor;
}

// The type of coll.h for a type of PyTorch, or COLL_DTYPE_NONE.
inline coll_dtype_t dtype_of(at::ScalarType type)
{
	switch (type) {
	case at::kBool: return COLL_BOOL;
	case at::kByte: return COLL_UINT8;
	case at::kChar: return COLL_INT8;
	case at::kShort: return COLL_INT16;
	case at::kInt: return COLL_INT32;
	case at::kLong: return COLL_INT64;
	case at::kHalf: return COLL_FLOAT16;
	case at::kBFloat16: return COLL_BFLOAT16;
	case at::kFloat: return COLL_FLOAT32;
	case at::kDouble: return COLL_FLOAT64;
	case at::kComplexFloat: return COLL_COMPLEX64;
	case at::kComplexDouble: return COLL_COMPLEX128;
#if COLL_TORCH_AT_LEAST(2, 1)
	case at::kFloat8_e4m3fn: return COLL_FLOAT8E4M3;
	case at::kFloat8_e5m2: return COLL_FLOAT8E5M2;
#endif
#if COLL_TORCH_AT_LEAST(2, 3)
	case at::kUInt16: return COLL_UINT16;
	case at::kUInt32: return COLL_UINT32;
	case at::kUInt64: return COLL_UINT64;
#endif
	default: return COLL_DTYPE_NONE;
	}
}

} // namespace coll_torch

#endif
