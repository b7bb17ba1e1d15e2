/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.h - tensors as the buffers of coll.h, and PyTorch's types and reductions as those of coll.h.
 *
 * A tensor whose elements do not follow one another in memory is copied.  The tensors of a list lie where they
 * are, as the parts of a v-form; where the collective has none (reduce_scatter), and for few bytes, they are
 * copied too, unless they follow one another.  Types that coll.h does not have travel as bytes.
 */
#ifndef COLL_TORCH_MEMORY_H
#define COLL_TORCH_MEMORY_H

#include "work.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace coll_torch
{

using c10d::ReduceOp;
using Counts = std::vector<size_t>;

// ------------------------------------------------------------ tensors as memory

inline bool plain(const at::Tensor &tensor)
{
	return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

// The tensor itself, or a copy whose elements follow one another.
inline at::Tensor dense(const at::Tensor &tensor)
{
	Unseen unseen;

	return tensor.resolve_conj().resolve_neg().contiguous();
}

// The tensor itself, or memory from which the work copies the result into the tensor.
inline at::Tensor dense_output(CollWork &work, const at::Tensor &tensor)
{
	if (plain(tensor)) {
		work.keep(tensor);
		return tensor;
	}
	Unseen unseen;
	at::Tensor copy = at::empty(tensor.sizes(), tensor.options());
	work.keep(copy);
	work.then([tensor, copy] { tensor.copy_(copy); });
	return copy;
}

// The same for an operation in place: the copy has the tensor's elements.
inline at::Tensor dense_in_place(CollWork &work, const at::Tensor &tensor)
{
	at::Tensor copy = dense_output(work, tensor);
	Unseen unseen;

	if (!copy.is_same(tensor))
		copy.copy_(tensor);
	return copy;
}

inline bool adjacent(const Tensors &tensors)
{
	const char *end = NULL;

	for (auto &tensor : tensors) {
		const char *data = static_cast<char *>(tensor.data_ptr());

		if (!plain(tensor) || !tensor.numel() || (end && data != end))
			return false;
		end = data + tensor.nbytes();
	}
	return end != NULL;
}

// The tensors' memory if they follow one another, else one tensor that is as long as all of them.
inline at::Tensor joined(const Tensors &tensors, bool *copied)
{
	int64_t count = 0;

	for (auto &tensor : tensors)
		count += tensor.numel();
	*copied = !adjacent(tensors);
	if (*copied)
		return at::empty({count}, tensors[0].options());
	return at::for_blob(tensors[0].data_ptr(), {count})
		.options(tensors[0].options())
		.target_device(tensors[0].device())
		.make_tensor();
}

inline at::Tensor joined_input(CollWork &work, const Tensors &tensors)
{
	Unseen unseen;
	bool copied;
	at::Tensor all = joined(tensors, &copied);
	int64_t offset = 0;

	for (auto &tensor : tensors) {
		if (copied)
			all.narrow(0, offset, tensor.numel()).copy_(tensor.reshape({-1}));
		else
			work.keep(tensor);
		offset += tensor.numel();
	}
	work.keep(all);
	return all;
}

inline at::Tensor joined_output(CollWork &work, const Tensors &tensors)
{
	bool copied;
	at::Tensor all = joined(tensors, &copied);

	work.keep(all);
	for (auto &tensor : tensors)
		work.keep(tensor);
	if (copied)
		work.then([tensors, all] {
			int64_t offset = 0;

			for (auto &tensor : tensors) {
				tensor.copy_(
					all.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
				offset += tensor.numel();
			}
		});
	return all;
}

inline bool overlap(const at::Tensor &one, const at::Tensor &other)
{
	const char *a = static_cast<char *>(one.data_ptr()),
		   *b = static_cast<char *>(other.data_ptr());

	return a < b + other.nbytes() && b < a + one.nbytes();
}

// A tensor in memory of coll_mem_alloc, which the tensor's last storage frees.
inline at::Tensor library_tensor(coll_comm_t comm, at::IntArrayRef sizes,
				 const at::TensorOptions &options)
{
	size_t bytes = options.dtype().itemsize();
	void *data = NULL;

	for (int64_t size : sizes)
		if (size < 0 || __builtin_mul_overflow(bytes, static_cast<size_t>(size), &bytes))
			throw std::runtime_error("coll: no tensor has this shape");
	check_result(coll_mem_alloc(comm, bytes, &data), "coll:empty");
	if (!data)
		return at::empty(sizes, options);
	return at::for_blob(data, sizes)
		.deleter([](void *memory) { coll_mem_free(memory); })
		.options(options)
		.target_device(options.device())
		.make_tensor();
}

// The input, or a copy if it lies in the output's memory.
inline at::Tensor apart(const at::Tensor &input, const at::Tensor &output)
{
	Unseen unseen;

	return overlap(input, output) ? input.clone() : input;
}

// An even list of tensors of at least so many bytes each is gathered without a copy.
enum { SPREAD_BYTES = 64 << 10 };

// A list of tensors as the buffer of a v-form: the tensors themselves, at displacements from the lowest of them, or
// else one tensor that is as long as all of them.
class Parts
{
      public:
	// The tensors lie in memory of their own, at distances that are multiples of `elem` bytes.
	static bool fit(const Tensors &tensors, size_t elem)
	{
		std::vector<std::pair<uintptr_t, size_t>> places;

		for (auto &tensor : tensors) {
			if (!plain(tensor))
				return false;
			if (tensor.numel())
				places.emplace_back(reinterpret_cast<uintptr_t>(tensor.data_ptr()),
						    tensor.nbytes());
		}
		std::sort(places.begin(), places.end());
		for (size_t i = 1; i < places.size(); i++)
			if (places[i].first < places[i - 1].first + places[i - 1].second ||
			    (places[i].first - places[0].first) % elem)
				return false;
		return !places.empty();
	}

	// `outputs` are the memory that the operation writes: inputs there are copied.
	static Parts of_input(CollWork &work, const Tensors &tensors, size_t elem,
			      const Tensors &outputs)
	{
		Parts parts = fit(tensors, elem) ? Parts(work, tensors, elem)
						 : Parts(joined_input(work, tensors));

		if (!parts.meet(outputs))
			return parts;
		Unseen unseen;
		at::Tensor copy = joined_input(work, tensors).clone();
		work.keep(copy);
		return Parts(copy);
	}

	static Parts whole_output(CollWork &work, const Tensors &tensors)
	{
		return Parts(joined_output(work, tensors));
	}

	static Parts of_output(CollWork &work, const Tensors &tensors, size_t elem)
	{
		return fit(tensors, elem) ? Parts(work, tensors, elem)
					  : Parts(joined_output(work, tensors));
	}

	void *buffer() const
	{
		return lowest_;
	}
	// Empty: they follow one another.
	const Counts &displs() const
	{
		return displs_;
	}
	const Tensors &tensors() const
	{
		return tensors_;
	}
	// The input, or a copy if it lies in the parts' memory.
	at::Tensor apart(const at::Tensor &input) const
	{
		Unseen unseen;

		return meet({input}) ? input.clone() : input;
	}

      private:
	explicit Parts(const at::Tensor &all) : tensors_{all}, lowest_(all.data_ptr())
	{
	}

	Parts(CollWork &work, const Tensors &tensors, size_t elem) : tensors_(tensors)
	{
		uintptr_t lowest = UINTPTR_MAX;

		for (auto &tensor : tensors) {
			work.keep(tensor);
			if (tensor.numel())
				lowest = std::min(lowest,
						  reinterpret_cast<uintptr_t>(tensor.data_ptr()));
		}
		for (auto &tensor : tensors)
			displs_.push_back(
				tensor.numel() ? (reinterpret_cast<uintptr_t>(tensor.data_ptr()) -
						  lowest) /
							 elem
					       : 0);
		lowest_ = reinterpret_cast<void *>(lowest);
	}

	bool meet(const Tensors &others) const
	{
		for (auto &tensor : tensors_)
			for (auto &other : others)
				if (overlap(tensor, other))
					return true;
		return false;
	}

	Tensors tensors_;
	void *lowest_;
	Counts displs_;
};

inline at::Tensor bytes_of(const at::Tensor &tensor)
{
	return dense(tensor).reshape({-1}).view(at::kByte);
}

// ------------------------------------------------------------ types, operations

// The type in which a tensor travels, and how many of its elements make one element of the tensor.
inline coll_dtype_t move_type(const at::Tensor &tensor, size_t *each)
{
	coll_dtype_t dtype = dtype_of(tensor.scalar_type());

	*each = dtype == COLL_DTYPE_NONE ? tensor.element_size() : 1;
	return dtype == COLL_DTYPE_NONE ? static_cast<coll_dtype_t>(COLL_UINT8) : dtype;
}

// An operation of coll.h; an operation made for this call ends with the object.
class Reduction
{
      public:
	Reduction(const ReduceOp &op, at::ScalarType type, coll_comm_t comm) : comm_(comm)
	{
		const char *name = at::toString(type);

		dtype = dtype_of(type);
		if (dtype == COLL_DTYPE_NONE)
			throw std::runtime_error(std::string("coll: no reduction of the type ") +
						 name);
		if (op == ReduceOp::PREMUL_SUM)
			scale(op, type);
		else
			this->op = type == at::kBool ? logical(op) : arithmetic(op);
		if (this->op == COLL_OP_NONE)
			throw std::runtime_error(
				std::string("coll: this reduction does not exist for the type ") +
				name);
	}
	~Reduction()
	{
		if (made_)
			coll_red_op_destroy(op, comm_);
	}
	Reduction(const Reduction &) = delete;
	Reduction &operator=(const Reduction &) = delete;

	coll_dtype_t dtype;
	coll_op_t op = COLL_OP_NONE;

      private:
	static coll_op_t arithmetic(const ReduceOp &op)
	{
		switch (static_cast<ReduceOp::RedOpType>(op)) {
		case ReduceOp::SUM: return COLL_SUM;
		case ReduceOp::AVG: return COLL_AVG;
		case ReduceOp::PRODUCT: return COLL_PROD;
		case ReduceOp::MIN: return COLL_MIN;
		case ReduceOp::MAX: return COLL_MAX;
		case ReduceOp::BAND: return COLL_BAND;
		case ReduceOp::BOR: return COLL_BOR;
		case ReduceOp::BXOR: return COLL_BXOR;
		default: return COLL_OP_NONE;
		}
	}

	static coll_op_t logical(const ReduceOp &op)
	{
		switch (static_cast<ReduceOp::RedOpType>(op)) {
		case ReduceOp::SUM:
		case ReduceOp::MAX:
		case ReduceOp::BOR: return COLL_LOR;
		case ReduceOp::PRODUCT:
		case ReduceOp::MIN:
		case ReduceOp::BAND: return COLL_LAND;
		case ReduceOp::BXOR: return COLL_LXOR;
		default: return COLL_OP_NONE;
		}
	}

	void scale(const ReduceOp &op, at::ScalarType type)
	{
		auto *factor = static_cast<c10d::NCCLPreMulSumSupplement *>(op.supplement_.get());
		at::Tensor scalar = tensor_factor(*factor, 0);

		scalar = scalar.defined() ? scalar.to(at::kCPU, type)
					  : at::scalar_tensor(factor->double_factor, type);
		check_result(coll_red_op_create_pre_mul_sum(&this->op, scalar.data_ptr(), dtype,
							    COLL_SCALAR_HOST_IMMEDIATE, comm_),
			     "coll:PREMUL_SUM");
		made_ = true;
	}

	coll_comm_t comm_;
	bool made_ = false;
};

} // namespace coll_torch

#endif
