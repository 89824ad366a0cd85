/* Buffers between guard bands, and the check that the bands are intact. */
#ifndef ETALON_GUARDED_CUH
#define ETALON_GUARDED_CUH

#include "gpu/host/cuda.cuh"

enum { BAND_BYTES = 4096, BAND_BYTE = 0xa5 };

/* A buffer of `bytes` from 256-byte boundary on, a band before it and a band behind it. `unused` bytes
 * lie before the first band. */
class guarded {
public:
	guarded(const char *name, size_t bytes, size_t unused = 0)
		: name_(name), bytes_(bytes), claimed_(bytes), unused_((unused + 255) / 256 * 256),
		  memory_(unused_ + 2 * BAND_BYTES + bytes)
	{
		mark(unused_, BAND_BYTES);
		mark(unused_ + BAND_BYTES + bytes, BAND_BYTES);
	}

	const char *name() const { return name_; }
	size_t bytes() const { return bytes_; }
	template <class F> F *as() const { return reinterpret_cast<F *>(memory_.as<unsigned char>() + unused_ + BAND_BYTES); }
	void fill(int byte)
	{
		if (bytes_)
			check(cudaMemset(as<void>(), byte, bytes_), name_);
	}

	/* What lies between `bytes` and the buffer's end belongs to the band from now on. */
	void claim(size_t bytes)
	{
		if (bytes == claimed_)
			return;
		claimed_ = bytes;
		mark(unused_ + BAND_BYTES + claimed_, bytes_ - claimed_);
	}
	size_t claimed() const { return claimed_; }

private:
	const char *name_;
	size_t bytes_, claimed_, unused_;
	buffer memory_;

	void mark(size_t at, size_t bytes)
	{
		if (bytes)
			check(cudaMemset(memory_.as<unsigned char>() + at, BAND_BYTE, bytes), name_);
	}
};

/* ---- the check ---- */

struct band { const unsigned char *from; size_t bytes; };
struct damage { unsigned long long changed, first; };   /* bytes; first: NO_OFFSET where none is */

/* Grid: bands. */
static __global__ void __launch_bounds__(256) inspect(const band *bands, damage *found)
{
	band b = bands[blockIdx.x];
	unsigned long long changed = 0, first = NO_OFFSET;

	for (size_t i = threadIdx.x; i < b.bytes; i += blockDim.x)
		if (b.from[i] != BAND_BYTE) {
			changed++;
			first = min(first, (unsigned long long)i);
		}
	if (!changed)
		return;
	atomicAdd(&found[blockIdx.x].changed, changed);
	atomicMin(&found[blockIdx.x].first, first);
}

/* Refuses with E_VALUE: the name of the first buffer whose band has changed, the offset of the first
 * changed byte from the band's begin, and how many there are. */
inline void check_bands(const std::vector<const guarded *> &list, cudaStream_t stream)
{
	std::vector<band> bands;
	std::vector<damage> found(2 * list.size(), { 0, NO_OFFSET });

	for (const guarded *g : list) {
		const unsigned char *begin = g->as<const unsigned char>();
		bands.push_back({ begin - BAND_BYTES, BAND_BYTES });
		bands.push_back({ begin + g->claimed(), g->bytes() - g->claimed() + BAND_BYTES });
	}
	buffer on_device = uploaded(bands), result = uploaded(found);
	launch_on(stream, "inspect", inspect, (unsigned)bands.size(), 256, 0, on_device.as<const band>(), result.as<damage>());
	check(cudaStreamSynchronize(stream), "inspect");
	result.download(found.data());
	for (size_t i = 0; i < found.size(); i++) {
		if (!found[i].changed)
			continue;
		struct error e = {};
		bool behind = i % 2;
		size_t bytes = list[i / 2]->claimed();
		error_set(&e, E_VALUE, list[i / 2]->name(), behind ? bytes + found[i].first : BAND_BYTES - found[i].first,
		          "%llu bytes of the guard band %s its %zu bytes have changed", found[i].changed,
		          behind ? "behind" : "before (the offset counts backwards)", bytes);
		throw e;
	}
}

#endif
