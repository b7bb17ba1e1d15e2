/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process_group.cpp - PyTorch's process group "coll": each call of c10d becomes an operation of coll.h.
 */
#include "barrier.h"
#include "memory.h"
#include "work.h"

#include <torch/csrc/distributed/c10d/Utils.hpp>
#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>

namespace coll_torch
{

using c10d::OpType;
using Store = c10::intrusive_ptr<c10d::Store>;

enum { SPARSE_SHAPE = 16 }; // numbers that describe a sparse tensor

// ---------------------------------------------------------------- process group

class ProcessGroupColl : public BackendBase
{
      public:
	using WorkPtr = c10::intrusive_ptr<c10d::Work>;
	using Lists = std::vector<Tensors>;
	using GroupPtr = c10::intrusive_ptr<BackendBase>;
	using OptionsPtr = c10::intrusive_ptr<BackendBase::Options>;

	ProcessGroupColl(const Store &store, int rank, int size, std::chrono::milliseconds timeout);
	~ProcessGroupColl() override;

	const std::string getBackendName() const override
	{
		return "coll";
	}

	WorkPtr broadcast(Tensors &, const c10d::BroadcastOptions &) override;
	WorkPtr allreduce(Tensors &, const c10d::AllreduceOptions &) override;
	WorkPtr allreduce_coalesced(Tensors &, const c10d::AllreduceCoalescedOptions &) override;
	WorkPtr reduce(Tensors &, const c10d::ReduceOptions &) override;
	WorkPtr allgather(Lists &, Tensors &, const c10d::AllgatherOptions &) override;
	WorkPtr _allgather_base(at::Tensor &, at::Tensor &,
				const c10d::AllgatherOptions &) override;
	WorkPtr allgather_coalesced(Lists &, Tensors &, const c10d::AllgatherOptions &) override;
	WorkPtr gather(Lists &, Tensors &, const c10d::GatherOptions &) override;
	WorkPtr scatter(Tensors &, Lists &, const c10d::ScatterOptions &) override;
	WorkPtr reduce_scatter(Tensors &, Lists &, const c10d::ReduceScatterOptions &) override;
	WorkPtr _reduce_scatter_base(at::Tensor &, at::Tensor &,
				     const c10d::ReduceScatterOptions &) override;
	WorkPtr alltoall_base(at::Tensor &, at::Tensor &, std::vector<int64_t> &,
			      std::vector<int64_t> &, const c10d::AllToAllOptions &) override;
	WorkPtr alltoall(Tensors &, Tensors &, const c10d::AllToAllOptions &) override;
	WorkPtr send(Tensors &, int peer, int tag) override;
	WorkPtr recv(Tensors &, int peer, int tag) override;
	WorkPtr recvAnysource(Tensors &, int tag) override;
	WorkPtr barrier(const c10d::BarrierOptions &) override;
	void monitoredBarrier(const c10d::BarrierOptions &, bool wait_all_ranks) override;
	void setSequenceNumberForGroup() override
	{
	} // all ranks begin at 0
	uint64_t getSequenceNumberForGroup() override
	{
		return issued_;
	}

	// PyTorch 2 calls these.
	virtual WorkPtr allreduce_sparse(Tensors &, const c10d::AllreduceOptions &);
	virtual WorkPtr allgather_into_tensor_coalesced(Tensors &, Tensors &,
							const c10d::AllgatherOptions &);
	virtual WorkPtr reduce_scatter_tensor_coalesced(Tensors &, Tensors &,
							const c10d::ReduceScatterOptions &);
	virtual void setTimeout(std::chrono::milliseconds timeout);
	virtual OptionsPtr getBackendOptions()
	{
		return c10::make_intrusive<BackendBase::Options>("coll", timeout_);
	}
#if COLL_TORCH_AT_LEAST(2, 15)
	// The members of a part, or of a merged group, meet over the store as those of a new group do.
	bool supportsSplitting() const override
	{
		return true;
	}
	GroupPtr split(const Store &, const std::vector<int> &ranks, const OptionsPtr &) override;
	GroupPtr merge(const Store &, const OptionsPtr &, const int &rank,
		       const int &size) override;
#endif
	// DistributedDataParallel asks for its buckets here.
	virtual bool supportsTensorAlloc(c10::DeviceIndex device)
	{
		return device == memory_device();
	}
	virtual at::Tensor allocateTensor(long size, at::TensorOptions options = {})
	{
		return empty({size}, options);
	}
	virtual void abort();
	virtual void shutdown()
	{
		NoGil no_gil;

		comm_->close();
	}

	// The ranks that died, as coll_comm_get_failed.
	std::vector<int32_t> failed_ranks();

	// The CUDA device on which coll_mem_alloc has its memory; -1: the host.
	c10::DeviceIndex memory_device() const;
	// A tensor in such memory.
	at::Tensor empty(const std::vector<int64_t> &sizes, const at::TensorOptions &options);

      private:
	WorkRef begin(OpType type, const char *title, const Tensors &inputs);
	WorkPtr issue(const WorkRef &work, const coll_args_t &args,
		      std::chrono::milliseconds timeout);
	WorkPtr receive(OpType type, const char *title, const Tensors &tensors, int peer, int tag);
	void check_ranks(const char *name, std::string list, size_t entries) const;
	void check_gathered(const Lists &outputs, const Tensors &inputs) const;

	Store store_;
	std::shared_ptr<Communicator> comm_;
	DeviceStreams streams_;
	std::chrono::milliseconds timeout_;
	std::atomic<uint64_t> issued_{0};
	uint64_t barriers_ = 0;
};

// A RuntimeError, as ProcessGroupGloo raises.
static void invalid(const std::string &name, const std::string &text)
{
	TORCH_CHECK(false, "ProcessGroupColl::", name, ": ", text);
}

static std::function<void(const std::string &)> complain(const char *name)
{
	return [name](const std::string &text) { invalid(name, text); };
}

// The tensors of a call lie in host memory, or on one CUDA device.
static void check_place(const char *name, const Tensors &tensors)
{
	c10d::assertNonEmpty(complain(name), tensors);
	for (size_t i = 0; i < tensors.size(); i++) {
		c10d::assertDense(complain(name), tensors[i]);
		if (!tensors[i].is_cuda())
			c10d::assertCPU(complain(name), tensors[i]);
		if (tensors[i].device() != tensors[0].device())
			invalid(name, "the tensors lie on different devices");
	}
}

static void check_host(const char *name, const Tensors &tensors)
{
	for (auto &tensor : tensors)
		c10d::assertCPU(complain(name), tensor);
}

static void check_one(const char *name, const Tensors &tensors)
{
	c10d::assertSingleElement(complain(name), tensors);
	check_place(name, tensors);
}

static void check_types(const char *name, const Tensors &tensors, const at::Tensor &like)
{
	check_place(name, tensors);
	for (size_t i = 0; i < tensors.size(); i++)
		c10d::assertTypeMatch(complain(name), like.options(), tensors, i);
	if (tensors[0].device() != like.device())
		invalid(name, "the tensors lie on different devices");
}

// Several tensors of one call, which stand for several devices of the rank: all of one layout, type and size.
static void check_alike(const char *name, const Tensors &tensors)
{
	c10d::assertNonEmpty(complain(name), tensors);
	c10d::assertLayoutMatch(complain(name), tensors);
	c10d::assertTypeAndSizesMatch(complain(name), tensors);
}

static void copy_first(const Tensors &tensors)
{
	for (size_t i = 1; i < tensors.size(); i++)
		tensors[i].copy_(tensors[0]);
}

static bool even(const Tensors &tensors)
{
	for (auto &tensor : tensors)
		if (tensor.numel() != tensors[0].numel())
			return false;
	return true;
}

static const size_t *or_null(const Counts &displs)
{
	return displs.empty() ? NULL : displs.data();
}

static Counts counts_of(const Tensors &tensors, size_t each)
{
	Counts counts;

	for (auto &tensor : tensors)
		counts.push_back(tensor.numel() * each);
	return counts;
}

ProcessGroupColl::ProcessGroupColl(const Store &store, int rank, int size,
				   std::chrono::milliseconds timeout)
    : BackendBase(rank, size), timeout_(timeout)
{
	// A group that is made again over the same store meets under another key.
	auto made = (store->add("coll_members", 1) - 1) / size;
	store_ = c10::make_intrusive<c10d::PrefixStore>("coll_" + std::to_string(made), store);

	char id[COLL_UNIQUE_ID_SIZE];
	if (rank == 0) {
		check_result(coll_get_unique_id(id, sizeof(id)), "coll:init");
		store_->set("id", std::vector<uint8_t>(id, id + strlen(id) + 1));
	} else {
		std::vector<uint8_t> text = store_->get("id");

		if (text.empty() || text.size() > sizeof(id) || text.back())
			throw_failure("coll:init: the store's entry \"id\" is not an id");
		memcpy(id, text.data(), text.size());
	}

	// Tensors of devices go through host memory where the backend does not take them, unless the user has chosen.
	const char *const options[] = {
		"progress=thread",
		getenv("COLL_ENABLE_GPU_FALLBACK") ? NULL : "enable_gpu_fallback=yes", NULL};
	coll_config_t config;
	coll_comm_t comm;
	check_result(coll_config_init(&config, sizeof(config)), "coll:init");
	config.timeout_ms = config.init_timeout_ms = timeout.count();
	config.options = options;
	check_result(coll_comm_init_rank(&comm, size, id, rank, &config), "coll:init");
	comm_ = std::make_shared<Communicator>(comm, timeout);
	comm_->open();
	init();
}

ProcessGroupColl::~ProcessGroupColl()
{
	NoGil no_gil;

	comm_->close();
}

WorkRef ProcessGroupColl::begin(OpType type, const char *title, const Tensors &inputs)
{
	auto work = c10::make_intrusive<CollWork>(comm_, rank_, type, title, inputs);

	if (!inputs.empty() && inputs[0].is_cuda() && !c10d::isP2POp(type))
		work->run_on(streams_.of(inputs[0].device()));
	return work;
}

ProcessGroupColl::WorkPtr ProcessGroupColl::issue(const WorkRef &work, const coll_args_t &args,
						  std::chrono::milliseconds timeout)
{
	work->issue(args, timeout.count() > 0 ? timeout : timeout_);
	issued_++;
	return work;
}

// A list with an entry for each rank, "input list" or "output list"; the sentences are ProcessGroupGloo's.
void ProcessGroupColl::check_ranks(const char *name, std::string list, size_t entries) const
{
	std::string text = "Incorrect " + list + " size " + std::to_string(entries) + ". ";

	if (entries == static_cast<size_t>(size_))
		return;
	list[0] = static_cast<char>(std::toupper(list[0]));
	invalid(name, text + list + " size should be " + std::to_string(size_) +
			      ", same as size of the process group.");
}

// ------------------------------------------------------------------ collectives

ProcessGroupColl::WorkPtr ProcessGroupColl::broadcast(Tensors &tensors,
						      const c10d::BroadcastOptions &opts)
{
	coll_args_t args = {};
	size_t each;

	c10d::assertRootRank(complain("broadcast"), opts.rootRank, size_);
	c10d::assertRootTensor(complain("broadcast"), opts.rootTensor, tensors.size());
	check_place("broadcast", tensors);
	c10d::assertTypeAndSizesMatch(complain("broadcast"), tensors);
	auto work = begin(OpType::BROADCAST, "coll:broadcast", tensors);
	at::Tensor buffer = dense_in_place(*work, tensors[opts.rootTensor]);
	work->then([tensors, root = opts.rootTensor] {
		for (size_t i = 0; i < tensors.size(); i++)
			if (i != static_cast<size_t>(root))
				tensors[i].copy_(tensors[root]);
	});
	work->set_outputs({tensors});
	args.kind = COLL_KIND_BROADCAST;
	args.root = opts.rootRank;
	args.dtype = move_type(buffer, &each);
	args.count = buffer.numel() * each;
	args.sendbuf = args.recvbuf = buffer.data_ptr();
	return issue(work, args, opts.timeout);
}

ProcessGroupColl::WorkPtr ProcessGroupColl::allreduce(Tensors &tensors,
						      const c10d::AllreduceOptions &opts)
{
	coll_args_t args = {};

	check_alike("allreduce", tensors);
	if (tensors[0].is_sparse())
		return allreduce_sparse(tensors, opts);
	check_place("allreduce", tensors);
	if (tensors.size() > 1)
		check_host("allreduce", tensors);
	if (tensors.size() > 1 &&
	    (opts.reduceOp == ReduceOp::AVG || opts.reduceOp == ReduceOp::PREMUL_SUM))
		invalid("allreduce", "AVG and PREMUL_SUM take one tensor a rank");
	Reduction reduction(opts.reduceOp, tensors[0].scalar_type(), comm_->handle);
	auto work = begin(OpType::ALLREDUCE, "coll:all_reduce", tensors);
	at::Tensor buffer = dense_in_place(*work, tensors[0]);
	for (size_t i = 1; i < tensors.size(); i++)
		check_result(coll_reduce_local(dense(tensors[i]).data_ptr(), buffer.data_ptr(),
					       buffer.numel(), reduction.dtype, reduction.op,
					       comm_->handle),
			     "coll:all_reduce");
	work->then([tensors] { copy_first(tensors); });
	work->set_outputs({tensors});
	args.kind = COLL_KIND_ALLREDUCE;
	args.dtype = reduction.dtype;
	args.op = reduction.op;
	args.count = buffer.numel();
	args.sendbuf = args.recvbuf = buffer.data_ptr();
	return issue(work, args, opts.timeout);
}

// A row for each rank, the same on all ranks but for the first number: how many elements the rank has.
static at::Tensor sparse_shape(const at::Tensor &tensor)
{
	std::vector<int64_t> shape = {tensor._nnz(), tensor.sparse_dim(), tensor.dense_dim()};

	for (int64_t size : tensor.sizes())
		shape.push_back(size);
	shape.resize(SPARSE_SHAPE);
	return at::tensor(shape, at::kLong);
}

static void check_sparse_shapes(const at::Tensor &shapes, int rank)
{
	at::Tensor rest = shapes.narrow(1, 1, SPARSE_SHAPE - 1);

	for (int64_t r = 0; r < shapes.size(0); r++)
		if (!rest[r].equal(rest[rank]))
			invalid("allreduce", "the sparse tensors of ranks " + std::to_string(r) +
						     " and " + std::to_string(rank) +
						     " have different sizes");
}

// All ranks get the elements of all ranks and add them up.  The call itself waits until each rank has told how many it
// has.
ProcessGroupColl::WorkPtr ProcessGroupColl::allreduce_sparse(Tensors &tensors,
							     const c10d::AllreduceOptions &opts)
{
	Unseen unseen;
	c10d::AllgatherOptions gather;
	Lists indices(1), values(1);

	check_alike("allreduce", tensors);
	c10d::assertCPU(complain("allreduce"), tensors[0]);
	if (!(opts.reduceOp == ReduceOp::SUM))
		invalid("allreduce",
			"unsupported reduction operation: of sparse tensors only the SUM");
	if (tensors[0].dim() + 3 > SPARSE_SHAPE)
		invalid("allreduce", "of sparse tensors at most " +
					     std::to_string(SPARSE_SHAPE - 3) + " dimensions");
	gather.timeout = opts.timeout;
	at::Tensor mine = tensors[0];
	for (size_t i = 1; i < tensors.size(); i++)
		mine = mine + tensors[i];
	mine = mine.coalesce();
	at::Tensor shape = sparse_shape(mine), shapes = at::empty({size_, SPARSE_SHAPE}, at::kLong);
	_allgather_base(shapes, shape, gather)->wait();
	check_sparse_shapes(shapes, rank_);
	Tensors my_indices = {mine.indices()}, my_values = {mine.values()};
	std::vector<int64_t> value = my_values[0].sizes().vec();
	for (int r = 0; r < size_; r++) {
		value[0] = shapes[r][0].item<int64_t>();
		indices[0].push_back(at::empty({mine.sparse_dim(), value[0]}, at::kLong));
		values[0].push_back(at::empty(value, my_values[0].options()));
	}
	WorkPtr before = allgather(indices, my_indices, gather),
		last = allgather(values, my_values, gather);
	auto *work = static_cast<CollWork *>(last.get());
	work->follow(before);
	work->then([tensors, indices, values] {
		tensors[0].copy_(at::sparse_coo_tensor(at::cat(indices[0], 1),
						       at::cat(values[0], 0), tensors[0].sizes())
					 .coalesce());
		copy_first(tensors);
	});
	work->set_outputs({tensors});
	return last;
}

// One operation for all tensors: they are joined.
ProcessGroupColl::WorkPtr ProcessGroupColl::allreduce_coalesced(
	Tensors &tensors, const c10d::AllreduceCoalescedOptions &opts)
{
	coll_args_t args = {};

	c10d::assertNonEmpty(complain("allreduce_coalesced"), tensors);
	c10d::assertLayoutMatch(complain("allreduce_coalesced"), tensors);
	for (auto &tensor : tensors)
		if (tensor.scalar_type() != tensors[0].scalar_type())
			invalid("allreduce_coalesced", "tensors must all have the same type");
	if (tensors[0].layout() != at::kStrided)
		invalid("allreduce_coalesced", "unsupported layout: the tensors must be dense");
	check_place("allreduce_coalesced", tensors);
	Reduction reduction(opts.reduceOp, tensors[0].scalar_type(), comm_->handle);
	auto work = begin(OpType::ALLREDUCE_COALESCED, "coll:all_reduce", tensors);
	at::Tensor input = joined_input(*work, tensors), output = joined_output(*work, tensors);
	work->set_outputs({tensors});
	args.kind = COLL_KIND_ALLREDUCE;
	args.dtype = reduction.dtype;
	args.op = reduction.op;
	args.count = input.numel();
	args.sendbuf = input.data_ptr();
	args.recvbuf = output.data_ptr();
	return issue(work, args, opts.timeout);
}

ProcessGroupColl::WorkPtr ProcessGroupColl::reduce(Tensors &tensors,
						   const c10d::ReduceOptions &opts)
{
	coll_args_t args = {};

	c10d::assertRootRank(complain("reduce"), opts.rootRank, size_);
	c10d::assertRootTensor(complain("reduce"), opts.rootTensor, tensors.size());
	check_one("reduce", tensors);
	Reduction reduction(opts.reduceOp, tensors[0].scalar_type(), comm_->handle);
	auto work = begin(OpType::REDUCE, "coll:reduce", tensors);
	at::Tensor buffer = dense_in_place(*work, tensors[0]);
	work->set_outputs({tensors});
	args.kind = COLL_KIND_REDUCE;
	args.root = opts.rootRank;
	args.dtype = reduction.dtype;
	args.op = reduction.op;
	args.count = buffer.numel();
	args.sendbuf = args.recvbuf = buffer.data_ptr();
	return issue(work, args, opts.timeout);
}

/*
 * The lists of an allgather: one input, whose outputs may differ in size; or several of one size, and as many lists of
 * outputs, which all get every input of every rank.
 */
void ProcessGroupColl::check_gathered(const Lists &outputs, const Tensors &inputs) const
{
	const size_t wanted = inputs.size() * static_cast<size_t>(size_);

	if (inputs.empty())
		invalid("allgather", "requires non-empty input tensor list");
	if (outputs.size() != inputs.size())
		invalid("allgather", "requires input/output tensor lists to have the same length");
	for (size_t i = 0; i < outputs.size(); i++)
		if (outputs[i].size() != wanted)
			invalid("allgather", "invalid output tensor list at index " +
						     std::to_string(i) + " (expected length " +
						     std::to_string(wanted) + ", got " +
						     std::to_string(outputs[i].size()) + ")");
	check_alike("allgather", inputs);
	check_place("allgather", inputs);
	for (auto &list : outputs)
		check_types("allgather", list, inputs[0]);
	for (size_t i = 0; inputs.size() > 1 && i < wanted; i++)
		c10d::assertSizesMatch(complain("allgather"), inputs[0].sizes(), outputs[0], i);
	c10d::assertSizesMatch(complain("allgather"), inputs[0].sizes(), outputs[0],
			       rank_ * inputs.size());
}

ProcessGroupColl::WorkPtr ProcessGroupColl::allgather(Lists &outputs, Tensors &inputs,
						      const c10d::AllgatherOptions &opts)
{
	coll_args_t args = {};
	size_t each;

	check_gathered(outputs, inputs);
	auto work = begin(OpType::ALLGATHER, "coll:all_gather", inputs);
	at::Tensor input = inputs.size() > 1 ? joined_input(*work, inputs) : dense(inputs[0]);
	args.dtype = move_type(input, &each);
	Counts counts = counts_of(outputs[0], each);
	// Few bytes take fewer steps in one buffer; every rank has the same sizes, and so chooses alike.
	bool whole =
		inputs.size() > 1 || (even(outputs[0]) && outputs[0][0].nbytes() < SPREAD_BYTES);
	Parts output = whole ? Parts::whole_output(*work, outputs[0])
			     : Parts::of_output(*work, outputs[0], coll_dtype_size(args.dtype));
	input = output.apart(input);
	work->keep(input);
	work->then([outputs] {
		for (size_t i = 1; i < outputs.size(); i++)
			for (size_t k = 0; k < outputs[i].size(); k++)
				outputs[i][k].copy_(outputs[0][k]);
	});
	work->set_outputs(outputs);
	args.kind = whole ? COLL_KIND_ALLGATHER : COLL_KIND_ALLGATHERV;
	args.count = input.numel() * each;
	args.recvcounts = counts.data();
	args.recvdispls = or_null(output.displs());
	args.sendbuf = input.data_ptr();
	args.recvbuf = output.buffer();
	return issue(work, args, opts.timeout);
}

ProcessGroupColl::WorkPtr ProcessGroupColl::_allgather_base(at::Tensor &output, at::Tensor &input,
							    const c10d::AllgatherOptions &opts)
{
	coll_args_t args = {};
	size_t each;

	check_types("_allgather_base", {output}, input);
	check_place("_allgather_base", {input});
	if (output.numel() != input.numel() * size_)
		invalid("_allgather_base",
			"output tensor size must be equal to world_size times input "
			"tensor size");
	auto work = begin(OpType::_ALLGATHER_BASE, "coll:_all_gather_base", {input});
	at::Tensor from = dense(input), to = dense_output(*work, output);
	work->keep(from);
	work->set_outputs({{output}});
	args.kind = COLL_KIND_ALLGATHER;
	args.dtype = move_type(from, &each);
	args.count = from.numel() * each;
	args.sendbuf = from.data_ptr();
	args.recvbuf = to.data_ptr();
	return issue(work, args, opts.timeout);
}

// outputs[r][i] becomes inputs[i] of rank r; the inputs travel as bytes, since their types may differ.
ProcessGroupColl::WorkPtr ProcessGroupColl::allgather_coalesced(Lists &outputs, Tensors &inputs,
								const c10d::AllgatherOptions &opts)
{
	coll_args_t args = {};
	Tensors parts;

	check_place("allgather_coalesced", inputs);
	check_host("allgather_coalesced", inputs);
	if (outputs.size() != static_cast<size_t>(size_))
		invalid("allgather_coalesced", "output lists should be equal to world size");
	for (auto &list : outputs) {
		if (list.size() != inputs.size())
			invalid("allgather_coalesced", "invalid output size: (expected length " +
							       std::to_string(inputs.size()) +
							       ", got " +
							       std::to_string(list.size()) + ")");
		check_place("allgather_coalesced", list);
		check_host("allgather_coalesced", list);
		for (size_t i = 0; i < list.size(); i++) {
			c10d::assertTypeMatch(complain("allgather_coalesced"), inputs[i].options(),
					      list, i);
			if (list[i].sizes() != inputs[i].sizes())
				invalid("allgather_coalesced",
					"invalid size of output tensor at index " +
						std::to_string(i));
		}
	}
	auto work = begin(OpType::ALLGATHER_COALESCED, "coll:all_gather", inputs);
	for (auto &input : inputs)
		parts.push_back(bytes_of(input));
	at::Tensor from = joined_input(*work, parts),
		   to = at::empty({from.numel() * size_}, from.options());
	work->keep(to);
	work->then([outputs, to] {
		int64_t offset = 0;

		for (auto &list : outputs)
			for (auto &output : list) {
				at::Tensor part = at::empty(output.sizes(), output.options());

				memcpy(part.data_ptr(), to.data_ptr<uint8_t>() + offset,
				       part.nbytes());
				output.copy_(part);
				offset += part.nbytes();
			}
	});
	work->set_outputs(outputs);
	args.kind = COLL_KIND_ALLGATHER;
	args.dtype = COLL_UINT8;
	args.count = from.numel();
	args.sendbuf = from.data_ptr();
	args.recvbuf = to.data_ptr();
	return issue(work, args, opts.timeout);
}

ProcessGroupColl::WorkPtr ProcessGroupColl::gather(Lists &outputs, Tensors &inputs,
						   const c10d::GatherOptions &opts)
{
	coll_args_t args = {};
	bool root = opts.rootRank == rank_;
	Counts counts, displs;
	size_t each;

	c10d::assertRootRank(complain("gather"), opts.rootRank, size_);
	c10d::assertSingleElementInput(complain("gather"), inputs);
	check_place("gather", inputs);
	if (!root && !outputs.empty())
		invalid("gather", "requires empty output on non-root");
	if (root && outputs.size() != 1)
		invalid("gather", "requires a single-element output list containing a list with " +
					  std::to_string(size_) + " tensors.");
	if (root) {
		check_ranks("gather", "output list", outputs[0].size());
		check_types("gather", outputs[0], inputs[0]);
		c10d::assertSizesMatch(complain("gather"), inputs[0].sizes(), outputs[0], rank_);
	}
	auto work = begin(OpType::GATHER, "coll:gather", inputs);
	at::Tensor input = dense(inputs[0]);
	args.dtype = move_type(input, &each);
	if (root) {
		counts = counts_of(outputs[0], each);
		args.recvcounts = counts.data();
		Parts output = Parts::of_output(*work, outputs[0], coll_dtype_size(args.dtype));
		displs = output.displs();
		args.recvdispls = or_null(displs);
		args.recvbuf = output.buffer();
		input = output.apart(input);
		work->set_outputs(outputs);
	}
	work->keep(input);
	args.kind = COLL_KIND_GATHERV;
	args.root = opts.rootRank;
	args.count = input.numel() * each;
	args.sendbuf = input.data_ptr();
	return issue(work, args, opts.timeout);
}

ProcessGroupColl::WorkPtr ProcessGroupColl::scatter(Tensors &outputs, Lists &inputs,
						    const c10d::ScatterOptions &opts)
{
	coll_args_t args = {};
	bool root = opts.rootRank == rank_;
	Counts counts, displs;
	size_t each;

	c10d::assertRootRank(complain("scatter"), opts.rootRank, size_);
	c10d::assertSingleElementOutput(complain("scatter"), outputs);
	check_place("scatter", outputs);
	if (!root && !inputs.empty())
		invalid("scatter", "requires empty input on non-root");
	if (root && inputs.size() != 1)
		invalid("scatter", "requires a single-element input list containing a list with " +
					   std::to_string(size_) + " tensors");
	if (root) {
		check_ranks("scatter", "input list", inputs[0].size());
		check_types("scatter", inputs[0], outputs[0]);
		c10d::assertSizesMatch(complain("scatter"), outputs[0].sizes(), inputs[0], rank_);
	}
	auto work = begin(OpType::SCATTER, "coll:scatter", root ? inputs[0] : outputs);
	at::Tensor output = dense_output(*work, outputs[0]);
	args.dtype = move_type(output, &each);
	if (root) {
		counts = counts_of(inputs[0], each);
		args.sendcounts = counts.data();
		Parts input =
			Parts::of_input(*work, inputs[0], coll_dtype_size(args.dtype), {output});
		displs = input.displs();
		args.senddispls = or_null(displs);
		args.sendbuf = input.buffer();
	}
	work->set_outputs({outputs});
	args.kind = COLL_KIND_SCATTERV;
	args.root = opts.rootRank;
	args.count = output.numel() * each;
	args.recvbuf = output.data_ptr();
	return issue(work, args, opts.timeout);
}

ProcessGroupColl::WorkPtr ProcessGroupColl::reduce_scatter(Tensors &outputs, Lists &inputs,
							   const c10d::ReduceScatterOptions &opts)
{
	coll_args_t args = {};

	c10d::assertSingleElementOutput(complain("reduce_scatter"), outputs);
	check_place("reduce_scatter", outputs);
	if (inputs.size() != 1)
		invalid("reduce_scatter", "requires a single-element input list");
	check_ranks("reduce_scatter", "input list", inputs[0].size());
	check_types("reduce_scatter", inputs[0], outputs[0]);
	if (outputs[0].numel() != inputs[0][rank_].numel())
		invalid("reduce_scatter", "the output has " + std::to_string(outputs[0].numel()) +
						  " elements, this rank's input " +
						  std::to_string(inputs[0][rank_].numel()));
	Reduction reduction(opts.reduceOp, outputs[0].scalar_type(), comm_->handle);
	auto work = begin(OpType::REDUCE_SCATTER, "coll:reduce_scatter", inputs[0]);
	at::Tensor output = dense_output(*work, outputs[0]);
	at::Tensor input = apart(joined_input(*work, inputs[0]), output);
	work->keep(input);
	work->set_outputs({outputs});
	Counts counts = counts_of(inputs[0], 1);
	args.kind = even(inputs[0]) ? COLL_KIND_REDUCE_SCATTER : COLL_KIND_REDUCE_SCATTERV;
	args.dtype = reduction.dtype;
	args.op = reduction.op;
	args.count = output.numel();
	args.recvcounts = counts.data();
	args.sendbuf = input.data_ptr();
	args.recvbuf = output.data_ptr();
	return issue(work, args, opts.timeout);
}

ProcessGroupColl::WorkPtr ProcessGroupColl::_reduce_scatter_base(
	at::Tensor &output, at::Tensor &input, const c10d::ReduceScatterOptions &opts)
{
	coll_args_t args = {};

	check_place("_reduce_scatter_base", {output});
	check_types("_reduce_scatter_base", {input}, output);
	if (output.numel() * size_ != input.numel())
		invalid("_reduce_scatter_base",
			"input tensor must be the same size as output size times world "
			"size");
	Reduction reduction(opts.reduceOp, output.scalar_type(), comm_->handle);
	auto work = begin(OpType::_REDUCE_SCATTER_BASE, "coll:_reduce_scatter_base", {input});
	at::Tensor from = dense(input), to = dense_output(*work, output);
	work->keep(from);
	work->set_outputs({{output}});
	args.kind = COLL_KIND_REDUCE_SCATTER;
	args.dtype = reduction.dtype;
	args.op = reduction.op;
	args.count = to.numel();
	args.sendbuf = from.data_ptr();
	args.recvbuf = to.data_ptr();
	return issue(work, args, opts.timeout);
}

// Counts of elements for splits of the first dimension; no splits: equal parts.
static Counts counts_of_splits(const std::vector<int64_t> &splits, const at::Tensor &tensor,
			       int size, size_t each)
{
	int64_t rows = tensor.size(0), row = rows ? tensor.numel() / rows : 1;
	Counts counts;

	c10d::checkSplitSizes(splits, tensor, size);
	for (int r = 0; r < size; r++)
		counts.push_back((splits.empty() ? rows / size : splits[r]) * row * each);
	return counts;
}

ProcessGroupColl::WorkPtr ProcessGroupColl::alltoall_base(at::Tensor &output, at::Tensor &input,
							  std::vector<int64_t> &output_splits,
							  std::vector<int64_t> &input_splits,
							  const c10d::AllToAllOptions &opts)
{
	coll_args_t args = {};
	size_t each;

	check_place("alltoall_base", {input});
	check_types("alltoall_base", {output}, input);
	args.dtype = move_type(input, &each);
	Counts out = counts_of_splits(output_splits, output, size_, each);
	Counts in = counts_of_splits(input_splits, input, size_, each);
	auto work = begin(OpType::ALLTOALL_BASE, "coll:all_to_all", {input});
	at::Tensor from = dense(input), to = dense_output(*work, output);
	work->keep(from);
	work->set_outputs({{output}});
	args.kind = COLL_KIND_ALLTOALLV;
	if (output_splits.empty() && input_splits.empty()) {
		if (output.numel() != input.numel())
			invalid("alltoall_base", "input and output have different sizes");
		args.kind = COLL_KIND_ALLTOALL;
		args.count = in[0];
	}
	args.sendcounts = in.data();
	args.recvcounts = out.data();
	args.sendbuf = from.data_ptr();
	args.recvbuf = to.data_ptr();
	return issue(work, args, opts.timeout);
}

ProcessGroupColl::WorkPtr ProcessGroupColl::alltoall(Tensors &outputs, Tensors &inputs,
						     const c10d::AllToAllOptions &opts)
{
	coll_args_t args = {};
	size_t each;

	check_ranks("alltoall", "output list", outputs.size());
	check_ranks("alltoall", "input list", inputs.size());
	check_types("alltoall", inputs, inputs[0]);
	check_types("alltoall", outputs, inputs[0]);
	args.dtype = move_type(inputs[0], &each);
	Counts out = counts_of(outputs, each), in = counts_of(inputs, each);
	auto work = begin(OpType::ALLTOALL, "coll:all_to_all", inputs);
	size_t elem = coll_dtype_size(args.dtype);
	Parts to = Parts::of_output(*work, outputs, elem),
	      from = Parts::of_input(*work, inputs, elem, to.tensors());
	work->set_outputs({outputs});
	args.kind = COLL_KIND_ALLTOALLV;
	args.sendcounts = in.data();
	args.senddispls = or_null(from.displs());
	args.recvcounts = out.data();
	args.recvdispls = or_null(to.displs());
	args.sendbuf = from.buffer();
	args.recvbuf = to.buffer();
	return issue(work, args, opts.timeout);
}

// ------------------------------------------------------------ messages, barriers

// A message is outside the order of the collectives and of streams: of a tensor on a device the thread waits for the
// current stream before the message, and for the message in Work::wait.
static void settle_tensor(const char *name, const at::Tensor &tensor)
{
	if (tensor.is_cuda() && !plain(tensor))
		invalid(name, "a tensor on a device must be contiguous");
	if (tensor.is_cuda())
		synchronize_device(tensor.device());
}

ProcessGroupColl::WorkPtr ProcessGroupColl::send(Tensors &tensors, int peer, int tag)
{
	size_t each;

	check_one("send", tensors);
	settle_tensor("send", tensors[0]);
	auto work = begin(OpType::SEND, "coll:send", tensors);
	at::Tensor input = dense(tensors[0]);
	work->keep(input);
	coll_dtype_t dtype = move_type(input, &each);
	work->issue(
		[&](coll_comm_t comm, coll_request_t *request) {
			return coll_isend(input.data_ptr(), input.numel() * each, dtype, peer, tag,
					  comm, request);
		},
		timeout_);
	return work;
}

ProcessGroupColl::WorkPtr ProcessGroupColl::receive(OpType type, const char *title,
						    const Tensors &tensors, int peer, int tag)
{
	size_t each;

	auto work = begin(type, title, tensors);
	// Elements behind a shorter message keep their values.
	at::Tensor output = dense_in_place(*work, tensors[0]);
	work->set_outputs({tensors});
	coll_dtype_t dtype = move_type(output, &each);
	work->issue(
		[&](coll_comm_t comm, coll_request_t *request) {
			return coll_irecv(output.data_ptr(), output.numel() * each, dtype, peer,
					  tag, comm, request);
		},
		timeout_);
	return work;
}

ProcessGroupColl::WorkPtr ProcessGroupColl::recv(Tensors &tensors, int peer, int tag)
{
	check_one("recv", tensors);
	settle_tensor("recv", tensors[0]);
	return receive(OpType::RECV, "coll:recv", tensors, peer, tag);
}

ProcessGroupColl::WorkPtr ProcessGroupColl::recvAnysource(Tensors &tensors, int tag)
{
	check_one("recvAnysource", tensors);
	settle_tensor("recvAnysource", tensors[0]);
	return receive(OpType::RECVANYSOURCE, "coll:recvAnySource", tensors, COLL_ANY_SOURCE, tag);
}

ProcessGroupColl::WorkPtr ProcessGroupColl::barrier(const c10d::BarrierOptions &opts)
{
	coll_args_t args = {};

	args.kind = COLL_KIND_BARRIER;
	return issue(begin(OpType::BARRIER, "coll:barrier", {}), args, opts.timeout);
}

void ProcessGroupColl::monitoredBarrier(const c10d::BarrierOptions &opts, bool wait_all_ranks)
{
	MonitoredBarrier barrier(*store_, barriers_++, rank_, size_,
				 opts.timeout == c10d::kUnsetTimeout ? timeout_ : opts.timeout);
	std::string fault = barrier.pass(wait_all_ranks);

	if (!fault.empty())
		throw_failure("coll:monitored_barrier: " + fault);
}

// ---------------------------------------------------------------------- PyTorch 2

// The operations of a communicator run in order, so the last work stands for all.
ProcessGroupColl::WorkPtr ProcessGroupColl::allgather_into_tensor_coalesced(
	Tensors &outputs, Tensors &inputs, const c10d::AllgatherOptions &opts)
{
	WorkPtr last;

	if (outputs.empty() || outputs.size() != inputs.size())
		invalid("allgather_into_tensor_coalesced", "requires as many outputs as inputs");
	for (size_t i = 0; i < outputs.size(); i++) {
		WorkPtr before = last;

		last = _allgather_base(outputs[i], inputs[i], opts);
		static_cast<CollWork *>(last.get())->follow(before);
	}
	return last;
}

ProcessGroupColl::WorkPtr ProcessGroupColl::reduce_scatter_tensor_coalesced(
	Tensors &outputs, Tensors &inputs, const c10d::ReduceScatterOptions &opts)
{
	WorkPtr last;

	if (outputs.empty() || outputs.size() != inputs.size())
		invalid("reduce_scatter_tensor_coalesced", "requires as many outputs as inputs");
	for (size_t i = 0; i < outputs.size(); i++) {
		WorkPtr before = last;

		last = _reduce_scatter_base(outputs[i], inputs[i], opts);
		static_cast<CollWork *>(last.get())->follow(before);
	}
	return last;
}

void ProcessGroupColl::setTimeout(std::chrono::milliseconds timeout)
{
	check_result(coll_comm_set_timeout(comm_->handle, timeout.count()), "coll:setTimeout");
	timeout_ = timeout;
	comm_->timeout = timeout;
}

void ProcessGroupColl::abort()
{
	check_result(coll_comm_abort(comm_->handle), "coll:abort");
}

std::vector<int32_t> ProcessGroupColl::failed_ranks()
{
	std::vector<int32_t> ranks(size_);
	int32_t count = 0;

	check_result(coll_comm_get_failed(comm_->handle, ranks.data(), size_, &count),
		     "coll:failed_ranks");
	ranks.resize(std::min(count, size_));
	return ranks;
}

c10::DeviceIndex ProcessGroupColl::memory_device() const
{
	const char *backend = "";
	int32_t device = -1;

	check_result(coll_comm_backend(comm_->handle, &backend), "coll:empty");
	check_result(coll_comm_device(comm_->handle, &device), "coll:empty");
	return static_cast<c10::DeviceIndex>(strcmp(backend, "nccl") ? -1 : device);
}

at::Tensor ProcessGroupColl::empty(const std::vector<int64_t> &sizes,
				   const at::TensorOptions &options)
{
	const c10::Device device = options.device();

	if (!(device.is_cpu() || device.is_cuda()) || device.index() != memory_device())
		invalid("empty",
			"the backend of libcoll allocates no memory of the device " + device.str());
	return library_tensor(comm_->handle, sizes, options);
}

#if COLL_TORCH_AT_LEAST(2, 15)
// NULL on a rank that has no part.
ProcessGroupColl::GroupPtr ProcessGroupColl::split(const Store &store,
						   const std::vector<int> &ranks,
						   const OptionsPtr &options)
{
	auto place = std::find(ranks.begin(), ranks.end(), rank_);

	if (place == ranks.end())
		return nullptr;
	return merge(store, options, (int)(place - ranks.begin()), (int)ranks.size());
}

// The store's connection is the parent's, and a wait would hold up others.
ProcessGroupColl::GroupPtr ProcessGroupColl::merge(const Store &store, const OptionsPtr &options,
						   const int &rank, const int &size)
{
	return c10::make_intrusive<ProcessGroupColl>(store->clone(), rank, size,
						     options ? options->timeout : timeout_);
}
#endif

static c10::intrusive_ptr<BackendBase> create(const Store &store, int rank, int size,
					      std::chrono::milliseconds timeout)
{
	return c10::make_intrusive<ProcessGroupColl>(store, rank, size, timeout);
}

} // namespace coll_torch

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module)
{
	namespace py = pybind11;
	using namespace coll_torch;
	using no_gil = py::call_guard<py::gil_scoped_release>;

	// PyTorch's own classes must be known before they are bases.
	py::module::import("torch._C._distributed_c10d");
	py::class_<ProcessGroupColl, BackendBase, c10::intrusive_ptr<ProcessGroupColl>>(
		module, "ProcessGroupColl")
		.def("abort", &ProcessGroupColl::abort, no_gil())
		.def("failed_ranks", &ProcessGroupColl::failed_ranks, no_gil())
		.def("set_timeout", &ProcessGroupColl::setTimeout, no_gil())
		.def("memory_device", &ProcessGroupColl::memory_device, no_gil())
		.def(
			"empty",
			[](ProcessGroupColl &group, const std::vector<int64_t> &sizes,
			   const at::Tensor &like, const std::string &device) {
				return group.empty(sizes,
						   like.options().device(c10::Device(device)));
			},
			no_gil())
		// For ranks outside of a group that PyTorch makes of a part of this one.
		.def("perform_nocolor_split", [](ProcessGroupColl &, const py::object &) {});
	module.def("close_all", &Communicator::close_all, no_gil());
	module.def("create", &create, no_gil(), py::arg("store"), py::arg("rank"), py::arg("size"),
		   py::arg("timeout"));
}
