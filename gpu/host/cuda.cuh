/* The host side that launchers share: errors, buffers on the device, the tensors of a capture.
 *
 * Inside gpu/ a failure is a thrown `struct error`; cuda_run catches it, none reaches C. */
#ifndef ETALON_CUDA_CUH
#define ETALON_CUDA_CUH

#include <cuda_runtime.h>
#include <exception>
#include <initializer_list>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <utility>
#include <vector>

extern "C" {
#include "fixtures/cases/capture.h"
}
#include "gpu/device/device.cuh"

/* ---- errors ---- */

[[noreturn]] void refuse(enum error_code code, const char *item, const char *detail, ...)
	__attribute__((format(printf, 3, 4)));

/* Refuses with E_MEMORY or E_DEVICE and CUDA's own message. */
void check(cudaError_t status, const char *doing);

template <class... P, class... A>
void launch_on(cudaStream_t stream, const char *name, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes,
               const A &...arguments)
{
	kernel<<<grid, block, shared_bytes, stream>>>(arguments...);
	check(cudaGetLastError(), name);
}

template <class... P, class... A>
void launch(const char *name, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes,
            const A &...arguments)
{
	launch_on(nullptr, name, kernel, grid, block, shared_bytes, arguments...);
}

/* Does f. What it throws ends up in *e, with `doing` where memory of the host ran out, and makes it false. */
template <class Call> bool caught(const char *doing, struct error *e, Call f)
{
	try {
		f();
		return true;
	} catch (const struct error &failure) {
		if (e)
			*e = failure;
		return false;
	} catch (const std::exception &failure) {
		return error_set(e, E_MEMORY, doing, NO_OFFSET, "%s", failure.what());
	}
}

/* Makes device 0 this thread's and sees to it that its arithmetic is what it should be. Refuses with E_NO_DEVICE. */
cudaDeviceProp first_device();

/* ---- memory on the device ---- */

/* Exactly `bytes` long, so that memcheck sees the first byte beyond. */
class buffer {
public:
	buffer() = default;
	explicit buffer(size_t bytes);
	~buffer() { if (data_) cudaFree(data_); }       /* even of nothing it would end a capture */
	buffer(const buffer &) = delete;
	buffer &operator=(const buffer &) = delete;
	buffer(buffer &&other) noexcept { swap(other); }
	buffer &operator=(buffer &&other) noexcept { swap(other); return *this; }

	void upload(const void *from);
	void download(void *to) const;
	void poison();          /* all bits one: NaN in every format */
	template <class F> F *as() const { return static_cast<F *>(data_); }
	size_t bytes() const { return bytes_; }

private:
	void *data_ = nullptr;
	size_t bytes_ = 0;

	void swap(buffer &other) noexcept { std::swap(data_, other.data_); std::swap(bytes_, other.bytes_); }
};

template <class F> buffer uploaded(const std::vector<F> &from)
{
	buffer b(from.size() * sizeof(F));
	b.upload(from.data());
	return b;
}

/* ---- the tensors of a capture ---- */

enum presence { REQUIRED, OPTIONAL };

/* "in.NAME" on the device. An absent optional one has NULL for data; host and dim are for one
 * that is there. */
class input {
public:
	input(const capture &c, const char *name, presence p);
	const tensor &host() const { return *host_; }
	size_t dim(int axis) const { return host_->shape[axis]; }
	template <class F> const F *as() const { return device_.as<const F>(); }
	operand any() const { return { device_.as<const void>(), host_ ? host_->dtype : DT_F32 }; }

private:
	const tensor *host_;
	buffer device_;
};

/* "out.NAME" on the device, poisoned until a kernel writes it. */
class output {
public:
	output(const capture &c, const char *name, presence p);
	const tensor &host() const { return *host_; }
	template <class F> F *as() const { return device_.as<F>(); }
	result any() const { return { device_.as<void>(), host_ ? host_->dtype : DT_F32 }; }
	void fetch() { if (host_) device_.download(host_->data); }

private:
	tensor *host_;
	buffer device_;
};

/* Refuses with E_DTYPE unless all that are present are stored as the first. */
void same_dtype(std::initializer_list<const tensor *> list);

/* Refuses with E_DTYPE one that is present and that an operand or a result cannot be. */
void float_dtypes(std::initializer_list<const tensor *> list);

/* The elements of an integer tensor. */
std::vector<int64_t> integers(const tensor &t);

/* The cuts of T tokens into sequences, [N+1]: cu_seqlens, or one sequence. Refuses with E_VALUE
 * what does not ascend from 0 to T. */
std::vector<int64_t> sequence_cuts(const capture &c, size_t T);

/* Every sequence has exactly one token. */
bool one_token_each(const std::vector<int64_t> &cuts);

/* The rung asked for by the metadata etalon.rung, from 0 to last: the kernels of an op are a ladder. usual, if none is. Refuses
 * another with E_VALUE. */
int rung_of(const capture &c, int last, int usual);
inline int rung_of(const capture &c, int best) { return rung_of(c, best, best); }

/* A size that kernels hold in an int. Refuses with E_DIM above `limit`. */
int small(size_t size, const char *what, size_t limit = INT32_MAX);

/* Calls f with a zero of the type that t's elements have. */
template <class Call> void by_dtype(const tensor &t, Call f)
{
	switch (t.dtype) {
	case DT_BF16: return f(bf16{});
	case DT_F16: return f(f16{});
	case DT_F32: return f(float{});
	default: refuse(E_DTYPE, t.name, "kernels take BF16, F16 and F32, not %s", dtype_info[t.dtype].name);
	}
}

/* Blocks of `each` for n, at most `limit`. */
inline unsigned blocks(size_t n, size_t each, size_t limit = INT32_MAX)
{
	return (unsigned)small((n + each - 1) / each, "blocks", limit);
}

#endif
