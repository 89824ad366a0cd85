/* A pool of states as a serving engine keeps it: more slots than rows, rows in no order, and a
 * table that says where each row's state lives. The last row is padding: slot -1, no state, no
 * inputs, no outputs. Slots that no row owns are poisoned and have to stay so. */
#ifndef ETALON_SLOTS_CUH
#define ETALON_SLOTS_CUH

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "gpu/host/cuda.cuh"

class slot_pool {
public:
	/* rows sequences of `each` elements: [rows,...] in initial, or zeros if NULL. The pool is F32
	 * unless every state tensor that is present is BF16: no conversion but the caller's own. */
	slot_pool(const tensor *initial, const tensor *final_state, size_t rows, size_t each);

	size_t rows() const { return table_.size(); }           /* with the padding */
	enum dtype dtype() const { return dtype_; }
	const int32_t *table() const { return device_table_.as<const int32_t>(); }
	template <class State> State *as() const { return device_pool_.as<State>(); }

	/* Into final_state (may be NULL) from the rows' slots. Refuses with E_DEVICE if a slot that
	 * no row owns has changed. */
	void gather(tensor *final_state);

private:
	enum { SPARE = 3, POISON = 0xff };
	size_t each_;
	enum dtype dtype_;
	std::vector<int32_t> table_;            /* [rows + 1] */
	std::vector<unsigned char> pool_;       /* [slots, each] */
	buffer device_table_, device_pool_;

	size_t slot_bytes() const { return each_ * dtype_info[dtype_].size; }
	void move(void *to, enum dtype to_type, const void *from, enum dtype from_type) const;
};

inline enum dtype pool_dtype(const tensor *initial, const tensor *final_state)
{
	bool any = initial || final_state;

	for (const tensor *t : { initial, final_state })
		any = any && (!t || t->dtype == DT_BF16);
	return any ? DT_BF16 : DT_F32;
}

inline slot_pool::slot_pool(const tensor *initial, const tensor *final_state, size_t rows, size_t each)
	: each_(each), dtype_(pool_dtype(initial, final_state)), table_(rows + SPARE)
{
	std::iota(table_.begin(), table_.end(), 0);
	std::shuffle(table_.begin(), table_.end(), std::mt19937(20));
	pool_.assign((rows + SPARE) * slot_bytes(), POISON);
	table_.resize(rows);
	for (size_t r = 0; r < rows; r++) {
		unsigned char *slot = &pool_[table_[r] * slot_bytes()];

		if (initial)
			move(slot, dtype_, static_cast<const char *>(initial->data) + r * each * dtype_info[initial->dtype].size,
			     initial->dtype);
		else
			memset(slot, 0, slot_bytes());
	}
	table_.push_back(-1);
	device_table_ = uploaded(table_);
	device_pool_ = uploaded(pool_);
}

inline void slot_pool::gather(tensor *final_state)
{
	std::vector<bool> owned(pool_.size() / slot_bytes());

	device_pool_.download(pool_.data());
	for (size_t r = 0; r + 1 < table_.size(); r++) {
		owned[table_[r]] = true;
		if (final_state)
			move(static_cast<char *>(final_state->data) + r * each_ * dtype_info[final_state->dtype].size,
			     final_state->dtype, &pool_[table_[r] * slot_bytes()], dtype_);
	}
	for (size_t s = 0; s < owned.size(); s++) {
		auto first = pool_.begin() + (ptrdiff_t)(s * slot_bytes()), last = first + (ptrdiff_t)slot_bytes();

		if (!owned[s] && std::any_of(first, last, [](unsigned char byte) { return byte != POISON; }))
			refuse(E_DEVICE, "slot", "the kernel wrote into slot %zu, which no row owns", s);
	}
}

/* One slot's elements, converted where the types differ. */
inline void slot_pool::move(void *to, enum dtype to_type, const void *from, enum dtype from_type) const
{
	if (to_type == from_type) {
		memcpy(to, from, slot_bytes());
		return;
	}
	std::vector<double> exact(each_);
	dtype_load(from_type, from, each_, exact.data());
	dtype_store(to_type, exact.data(), each_, to);
}

#endif
