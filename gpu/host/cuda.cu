/* What launchers share on the host. */
#include "gpu/host/cuda.cuh"

#include <cstdarg>
#include <cstring>

/* ---- errors ---- */

void refuse(enum error_code code, const char *item, const char *detail, ...)
{
	struct error e = {};
	char text[sizeof e.detail];
	va_list arguments;

	va_start(arguments, detail);
	vsnprintf(text, sizeof text, detail, arguments);
	va_end(arguments);
	error_set(&e, code, item, NO_OFFSET, "%s", text);
	throw e;
}

void check(cudaError_t status, const char *doing)
{
	if (status != cudaSuccess)
		refuse(status == cudaErrorMemoryAllocation ? E_MEMORY : E_DEVICE, doing, "%s: %s",
		       cudaGetErrorName(status), cudaGetErrorString(status));
}

/* ---- memory ---- */

buffer::buffer(size_t bytes) : bytes_(bytes)
{
	cudaError_t status = bytes ? cudaMalloc(&data_, bytes) : cudaSuccess;

	if (status == cudaErrorMemoryAllocation)
		refuse(E_MEMORY, nullptr, "%zu bytes on the device", bytes);
	check(status, "cudaMalloc");
}

void buffer::upload(const void *from)
{
	if (bytes_)
		check(cudaMemcpy(data_, from, bytes_, cudaMemcpyHostToDevice), "copy to the device");
}

void buffer::download(void *to) const
{
	if (bytes_)
		check(cudaMemcpy(to, data_, bytes_, cudaMemcpyDeviceToHost), "copy from the device");
}

void buffer::poison()
{
	if (bytes_)
		check(cudaMemset(data_, 0xff, bytes_), "cudaMemset");
}

/* ---- tensors ---- */

input::input(const capture &c, const char *name, presence p)
	: host_(capture_in(&c, name)), device_(host_ ? host_->bytes : 0)
{
	if (host_)
		device_.upload(host_->data);
	else if (p == REQUIRED)
		refuse(E_MISSING, name, "the kernel of %s reads this input", c.op);
}

output::output(const capture &c, const char *name, presence p)
	: host_(capture_out(&c, name)), device_(host_ ? host_->bytes : 0)
{
	if (host_)
		device_.poison();
	else if (p == REQUIRED)
		refuse(E_MISSING, name, "the kernel of %s writes this output", c.op);
}

void same_dtype(std::initializer_list<const tensor *> list)
{
	const tensor *first = *list.begin();

	for (const tensor *t : list)
		if (t && t->dtype != first->dtype)
			refuse(E_DTYPE, t->name, "%s, but %s is %s; the kernel stores both alike",
			       dtype_info[t->dtype].name, first->name, dtype_info[first->dtype].name);
}

void float_dtypes(std::initializer_list<const tensor *> list)
{
	for (const tensor *t : list)
		if (t)
			by_dtype(*t, [](auto) {});
}

std::vector<int64_t> integers(const tensor &t)
{
	std::vector<int64_t> list(t.count);

	for (size_t i = 0; i < t.count; i++) {
		int32_t narrow;

		if (t.dtype == DT_I64) {
			memcpy(&list[i], static_cast<char *>(t.data) + i * sizeof list[i], sizeof list[i]);
		} else if (t.dtype == DT_I32) {
			memcpy(&narrow, static_cast<char *>(t.data) + i * sizeof narrow, sizeof narrow);
			list[i] = narrow;
		} else {
			refuse(E_DTYPE, t.name, "I32 or I64, not %s", dtype_info[t.dtype].name);
		}
	}
	return list;
}

std::vector<int64_t> sequence_cuts(const capture &c, size_t T)
{
	const tensor *given = capture_in(&c, "cu_seqlens");
	std::vector<int64_t> cuts = given ? integers(*given) : std::vector<int64_t>{ 0, (int64_t)T };

	if (cuts.size() < 2 || cuts.front() != 0 || cuts.back() != (int64_t)T)
		refuse(E_VALUE, "cu_seqlens", "must begin with 0 and end with the %zu tokens", T);
	for (size_t n = 0; n + 1 < cuts.size(); n++)
		if (cuts[n] > cuts[n + 1])
			refuse(E_VALUE, "cu_seqlens", "descends after element %zu", n);
	return cuts;
}

bool one_token_each(const std::vector<int64_t> &cuts)
{
	for (size_t n = 0; n < cuts.size(); n++)
		if (cuts[n] != (int64_t)n)
			return false;
	return true;
}

int rung_of(const capture &c, int last, int usual)
{
	const char *asked = meta_get(&c.tensors, "etalon.rung");

	if (!asked)
		return usual;
	if (!(asked[0] >= '0' && asked[0] <= '0' + last) || asked[1])
		refuse(E_VALUE, "etalon.rung", "the rungs of %s are 0 to %d, not %s", c.op, last, asked);
	return asked[0] - '0';
}

int small(size_t size, const char *what, size_t limit)
{
	if (size > limit)
		refuse(E_DIM, what, "%zu; the kernel goes up to %zu", size, limit);
	return (int)size;
}

/* ---- the device ---- */

__global__ void halve(float *x) { *x *= 0.5f; }

/* Fast-math has no macro under nvcc, but it flushes subnormal numbers. */
static void check_arithmetic()
{
	std::vector<float> x = { 0x1p-126f };
	buffer b = uploaded(x);

	launch("halve", halve, 1, 1, 0, b.as<float>());
	b.download(x.data());
	if (x[0] != 0x1p-127f)
		refuse(E_DEVICE, "2^-127", "flushed to zero: the kernels were compiled with fast-math,"
		       " which changes what is measured");
}

cudaDeviceProp first_device()
{
	cudaDeviceProp device;
	int n = 0;
	cudaError_t status = cudaGetDeviceCount(&n);

	if (status != cudaSuccess || n == 0)
		refuse(E_NO_DEVICE, nullptr, "%s", status == cudaSuccess ? "no CUDA device" : cudaGetErrorString(status));
	check(cudaSetDevice(0), "device 0");
	check(cudaGetDeviceProperties(&device, 0), "device 0");
	check_arithmetic();
	return device;
}
