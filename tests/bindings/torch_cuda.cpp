/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * torch_cuda.cpp - CUDA devices for a PyTorch that was built without CUDA, over the stand-in for the CUDA driver: memory,
 * streams, events and the operators that the backend "coll" needs.  The operators copy on the current stream; every
 * other operator works on copies in host memory.
 */
#include <torch/extension.h>

#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <list>
#include <map>
#include <mutex>
#include <set>

extern "C" {
#include "../fakes/cuda.h"
}

using c10::Device;
using c10::Stream;
using c10::StreamId;

static void must(int result, const char *what)
{
	TORCH_CHECK(result == CUDA_SUCCESS, what, ": ", result);
}

// ------------------------------------------------------------------------ streams

static thread_local c10::DeviceIndex current_device;
static thread_local std::map<c10::DeviceIndex, StreamId> current_streams;

static void enter(c10::DeviceIndex device)
{
	void *context;

	must(cuInit(0), "cuInit");
	must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	current_device = device;
}

static void *handle_of(const Stream &stream)
{
	return reinterpret_cast<void *>(stream.id());
}

// As with PyTorch's allocator, memory is free when the stream that was current has come to where it is, and so have the
// streams that recordDataPtrOnStream names.
struct Block {
	CUdeviceptr ptr = 0;
	c10::DeviceIndex device = 0;
	std::set<void *> streams;
	std::vector<void *> events; // of the streams, when the program has no use for the memory
};

static std::mutex dropped_mutex;
static std::list<Block *> dropped;

static bool block_is_over(Block *block)
{
	for (void *event : block->events)
		if (cuEventQuery(event) != CUDA_SUCCESS)
			return false;
	for (void *event : block->events)
		cuEventDestroy_v2(event);
	cuMemFree_v2(block->ptr);
	delete block;
	return true;
}

static void drop_block(void *ctx)
{
	auto *block = static_cast<Block *>(ctx);
	std::lock_guard<std::mutex> lock(dropped_mutex);

	enter(block->device);
	for (void *stream : block->streams) {
		void *event;

		must(cuEventCreate(&event, 2), "cuEventCreate");
		must(cuEventRecord(event, stream), "cuEventRecord");
		block->events.push_back(event);
	}
	dropped.push_back(block);
	dropped.remove_if(block_is_over);
}

struct Guard final : public c10::impl::DeviceGuardImplInterface {
	c10::DeviceType type() const override
	{
		return c10::kCUDA;
	}
	Device exchangeDevice(Device device) const override
	{
		Device old = getDevice();

		setDevice(device);
		return old;
	}
	Device getDevice() const override
	{
		return Device(c10::kCUDA, current_device);
	}
	void setDevice(Device device) const override
	{
		enter(device.index());
	}
	void uncheckedSetDevice(Device device) const noexcept override
	{
		enter(device.index());
	}
	c10::DeviceIndex deviceCount() const noexcept override
	{
		int count = 0;

		cuInit(0);
		cuDeviceGetCount(&count);
		return static_cast<c10::DeviceIndex>(count);
	}

	Stream getStream(Device device) const noexcept override
	{
		return Stream(Stream::UNSAFE, device, current_streams[device.index()]);
	}
	Stream getDefaultStream(Device device) const override
	{
		return Stream(Stream::UNSAFE, device, 0);
	}
	Stream getStreamFromGlobalPool(Device device, bool) const override
	{
		void *stream;

		enter(device.index());
		must(cuStreamCreate(&stream, 1), "cuStreamCreate");
		return Stream(Stream::UNSAFE, device, reinterpret_cast<StreamId>(stream));
	}
	Stream exchangeStream(Stream stream) const noexcept override
	{
		Stream old = getStream(stream.device());

		current_streams[stream.device_index()] = stream.id();
		return old;
	}
	bool queryStream(const Stream &stream) const override
	{
		return cuStreamQuery(handle_of(stream)) == CUDA_SUCCESS;
	}
	void synchronizeStream(const Stream &stream) const override
	{
		enter(stream.device_index());
		must(cuStreamSynchronize(handle_of(stream)), "cuStreamSynchronize");
	}
	void recordDataPtrOnStream(const c10::DataPtr &data, const Stream &stream) const override
	{
		if (data.get_deleter() == &drop_block)
			static_cast<Block *>(data.get_context())->streams.insert(handle_of(stream));
	}

	void record(void **event, const Stream &stream, const c10::DeviceIndex,
		    const c10::EventFlag) const override
	{
		enter(stream.device_index());
		if (!*event)
			must(cuEventCreate(event, 2), "cuEventCreate");
		must(cuEventRecord(*event, handle_of(stream)), "cuEventRecord");
	}
	void block(void *event, const Stream &stream) const override
	{
		enter(stream.device_index());
		if (event)
			must(cuStreamWaitEvent(handle_of(stream), event, 0), "cuStreamWaitEvent");
	}
	bool queryEvent(void *event) const override
	{
		return !event || cuEventQuery(event) == CUDA_SUCCESS;
	}
	void destroyEvent(void *event, const c10::DeviceIndex) const noexcept override
	{
		if (event)
			cuEventDestroy_v2(event);
	}
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard)

// ------------------------------------------------------------------------- memory

struct Memory final : public c10::Allocator {
	c10::DataPtr allocate(size_t bytes) const override
	{
		auto *block = new Block;

		enter(current_device);
		if (bytes)
			must(cuMemAlloc_v2(&block->ptr, bytes), "cuMemAlloc");
		block->device = current_device;
		block->streams.insert(handle_of(Guard().getStream(Guard().getDevice())));
		return {reinterpret_cast<void *>(block->ptr), block, &drop_block,
			Guard().getDevice()};
	}
	c10::DeleterFnPtr raw_deleter() const override
	{
		return nullptr;
	}
};
static Memory memory;

static const c10::DispatchKeySet keys(c10::DispatchKey::CUDA);

static void enter_optional(c10::optional<Device> device)
{
	enter(device && device->has_index() ? device->index() : current_device);
}

static at::Tensor empty(at::IntArrayRef size, c10::optional<at::ScalarType> type,
			c10::optional<at::Layout>, c10::optional<Device> device,
			c10::optional<bool>, c10::optional<at::MemoryFormat> format)
{
	enter_optional(device);
	return at::detail::empty_generic(size, &memory, keys, type.value_or(at::kFloat), format);
}

static at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
				c10::optional<at::ScalarType> type, c10::optional<at::Layout>,
				c10::optional<Device> device, c10::optional<bool>)
{
	enter_optional(device);
	return at::detail::empty_strided_generic(size, stride, &memory, keys,
						 type.value_or(at::kFloat));
}

// The bytes from the first to the last element of a tensor.
static size_t extent(const at::Tensor &tensor)
{
	return at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(),
						tensor.element_size());
}

static void move(void *to, const void *from, size_t bytes, Device device)
{
	enter(device.index());
	must(cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from),
			   bytes, handle_of(Guard().getStream(device))),
	     "cuMemcpyAsync");
}

static at::Tensor to_host(const at::Tensor &tensor)
{
	at::Tensor copy = at::empty_strided(tensor.sizes(), tensor.strides(),
					    tensor.options().device(at::kCPU));

	move(copy.data_ptr(), tensor.data_ptr(), extent(tensor), tensor.device());
	Guard().synchronizeStream(Guard().getStream(tensor.device()));
	return copy;
}

static at::Tensor &copy(at::Tensor &self, const at::Tensor &from, bool)
{
	if (self.is_cuda() && from.is_cuda() && self.is_contiguous() && from.is_contiguous() &&
	    self.dtype() == from.dtype() && self.sizes() == from.sizes()) {
		move(self.data_ptr(), from.data_ptr(), self.nbytes(), self.device());
		return self;
	}
	at::Tensor source = from.is_cuda() ? to_host(from) : from;
	if (!self.is_cuda()) {
		self.copy_(source);
		return self;
	}
	at::Tensor here = to_host(self).copy_(source);
	move(self.data_ptr(), here.data_ptr(), extent(self), self.device());
	Guard().synchronizeStream(Guard().getStream(self.device()));
	return self;
}

TORCH_LIBRARY_IMPL(aten, CUDA, m)
{
	m.impl("empty.memory_format", empty);
	m.impl("empty_strided", empty_strided);
	m.impl("copy_", copy);
	m.impl("view", [](const at::Tensor &self, at::IntArrayRef size) {
		return at::native::view(self, size);
	});
	m.impl("_reshape_alias",
	       [](const at::Tensor &self, at::IntArrayRef size, at::IntArrayRef stride) {
		       return at::native::as_strided_tensorimpl(self, size, stride, c10::nullopt);
	       });
	m.impl("as_strided", [](const at::Tensor &self, at::IntArrayRef size,
				at::IntArrayRef stride, c10::optional<int64_t> offset) {
		return at::native::as_strided_tensorimpl(self, size, stride, offset);
	});
}

TORCH_LIBRARY_IMPL(_, CUDA, m)
{
	m.fallback(torch::CppFunction::makeFromBoxedFunction<&at::native::cpu_fallback>());
}

// -------------------------------------------------------------------------- Python

static int busy(void *arg)
{
	std::this_thread::sleep_for(std::chrono::milliseconds(reinterpret_cast<intptr_t>(arg)));
	return 0;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module)
{
	c10::SetAllocator(c10::kCUDA, &memory);
	module.def("current_raw_stream", [](int device) {
		return static_cast<intptr_t>(
			current_streams[static_cast<c10::DeviceIndex>(device)]);
	});
	module.def("to", [](const at::Tensor &tensor, int device) {
		at::Tensor there = at::empty_strided(
			tensor.sizes(), tensor.strides(),
			tensor.options().device(
				Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device))));

		return there.copy_(tensor);
	});
	module.def("cpu", &to_host);
	module.def("use_new_stream", [](int device) {
		Guard guard;

		guard.exchangeStream(guard.getStreamFromGlobalPool(
			Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device)), false));
	});
	/* The current stream works for so long. */
	module.def("work", [](int device, int ms) {
		enter(static_cast<c10::DeviceIndex>(device));
		must(standin_stream_do(handle_of(Guard().getStream(Device(c10::kCUDA, device))),
				       busy, reinterpret_cast<void *>(static_cast<intptr_t>(ms))),
		     "standin_stream_do");
	});
	module.attr("streams") = py::cpp_function([] { return standin_streams(); });
}
