/* One rank of several, each a process with a device, and what NCCL does among them.
 *
 * All that a rank does is in the order of its stream. NVLink multicast stays off. */
#ifndef ETALON_RANKS_CUH
#define ETALON_RANKS_CUH

#include <algorithm>
#include <memory>
#include <string>

#include "gpu/host/cuda.cuh"

/* The type in which elements travel and are added. */
enum travels { TRAVELS_F32, TRAVELS_BF16, TRAVELS_F16, TRAVELS_E4M3 };
template <class F> constexpr travels travels_as = TRAVELS_F32;
template <> inline constexpr travels travels_as<bf16> = TRAVELS_BF16;
template <> inline constexpr travels travels_as<f16> = TRAVELS_F16;

/* Where ranks find each other: memory that all of them share, zeros at first. */
struct meeting { volatile int written; char id[128]; };

class ranks {
public:
	/* Rank `mine` of n. Where there are fewer devices than ranks, rank r has device r mod their number,
	 * and NCCL, which wants a device for each rank, is told that the ranks are on hosts of their own.
	 * Refuses with E_NO_DEVICE, and with E_NO_BACKEND where NCCL is missing. */
	ranks(int mine, int n, struct meeting *place);
	~ranks();
	ranks(const ranks &) = delete;
	ranks &operator=(const ranks &) = delete;

	int mine() const;
	int size() const;
	int devices() const;
	std::string library() const;            /* "NCCL 2.28.9" */
	cudaStream_t stream() const;
	void wait() const;                      /* until this rank has done what was asked */

	/* Of all ranks at once. all_reduce: `count` elements on each, in place. The others: `each` elements
	 * are one rank's share. */
	void all_reduce(void *at, size_t count, enum travels type);
	void reduce_scatter(const void *from, void *to, size_t each, enum travels type);
	void all_gather(const void *from, void *to, size_t each, enum travels type);

	/* Bytes to another rank, and from another; those of one `together` go at once. */
	void send(const void *from, size_t bytes, int to);
	void receive(void *to, size_t bytes, int from);
	void begin_together();
	void end_together();

private:
	struct inside;
	std::unique_ptr<inside> in_;
};

inline buffer on_device(const void *from, size_t bytes)
{
	buffer b(bytes);

	b.upload(from);
	return b;
}

/* This rank's part of a tensor that is cut into equal parts along its first axis, and where it lies. */
inline char *part_of(const tensor &t, const ranks &all)
{
	return static_cast<char *>(t.data) + (size_t)all.mine() * t.bytes / (size_t)all.size();
}
inline size_t part_bytes(const tensor &t, const ranks &all) { return t.bytes / (size_t)all.size(); }

/* This rank's part of a tensor that is cut along `axis`, behind each other. */
inline std::vector<char> share_of(const tensor &t, int axis, const ranks &all)
{
	size_t width = dtype_info[t.dtype].size;

	for (int i = axis; i < t.rank; i++)
		width *= t.shape[i];
	size_t mine = width / (size_t)all.size(), rows = t.bytes / width;
	std::vector<char> share(rows * mine);
	const char *from = static_cast<const char *>(t.data) + (size_t)all.mine() * mine;
	for (size_t r = 0; r < rows; r++)
		std::copy_n(from + r * width, mine, share.data() + r * mine);
	return share;
}

#endif
