/* Requests' memories, sent from ranks that prefill to ranks that decode, whose heads are split
 * differently: copies alone.
 *
 * in.state [P,N,Hp,Dk,Dv], in.conv [P,N,Cp,W], slot [N]; out.state [Q,N,Hq,Dk,Dv], out.conv [Q,N,Cq,W]. A
 * rank's channels are its key heads' queries, its key heads' keys, its value heads' values. Where a key
 * head is on several prefill ranks, the first one sends it.
 *
 * Prefill rank p and decode rank q are NCCL's ranks p and q, modulo how many NCCL has. */
#include "gpu/nccl/ranks.cuh"

namespace {

struct split { size_t ranks, heads, keys, channels; };  /* of a rank: value heads, key heads, channels */

struct transfer {
	ranks &all;
	const tensor &state, &conv;
	tensor &state_out, &conv_out;
	std::vector<int64_t> slot;
	size_t N, Dk, Dv, W, group;
	split from, to;
	std::vector<buffer> state_from, conv_from, state_to, conv_to;   /* those of this process are filled */

	transfer(const capture &c, ranks &among)
		: all(among), state(*capture_in(&c, "state")), conv(*capture_in(&c, "conv")),
		  state_out(*capture_out(&c, "state")), conv_out(*capture_out(&c, "conv")),
		  slot(integers(*capture_in(&c, "slot"))), N(state.shape[1]), Dk(state.shape[3]), Dv(state.shape[4]),
		  W(conv.shape[3])
	{
		same_dtype({ &state, &state_out });
		same_dtype({ &conv, &conv_out });
		from = { state.shape[0], state.shape[2], (conv.shape[2] - state.shape[2] * Dv) / (2 * Dk), conv.shape[2] };
		size_t keys = (size_t)capture_number(&c, "key_heads", 0);
		group = from.ranks * from.heads / (keys ? keys : from.ranks * from.keys);
		to = { state_out.shape[0], state_out.shape[2], std::max<size_t>(state_out.shape[2] / group, 1), conv_out.shape[2] };
	}

	int process(size_t rank) const { return (int)(rank % (size_t)all.size()); }
	size_t state_bytes() const { return Dk * Dv * dtype_info[state.dtype].size; }
	size_t channel_bytes() const { return W * dtype_info[conv.dtype].size; }

	void move(size_t p, const std::vector<buffer> &source, size_t a, size_t q, const std::vector<buffer> &target, size_t b, size_t bytes)
	{
		if (process(p) == all.mine())
			all.send(source[p].as<char>() + a, bytes, process(q));
		if (process(q) == all.mine())
			all.receive(target[q].as<char>() + b, bytes, process(p));
	}

	/* n channels of request r, from channel a of prefill rank p on to channel b of decode rank q on. */
	void move_channels(size_t r, size_t p, size_t a, size_t q, size_t b, size_t n)
	{
		size_t each = channel_bytes();

		move(p, conv_from, (r * from.channels + a) * each, q, conv_to, ((size_t)slot[r] * to.channels + b) * each, n * each);
	}

	void move_head(size_t r, size_t q, size_t i)
	{
		size_t head = q * to.heads + i, p = head / from.heads, there = head % from.heads, each = state_bytes();

		move(p, state_from, (r * from.heads + there) * each, q, state_to, ((size_t)slot[r] * to.heads + i) * each, each);
		move_channels(r, p, 2 * from.keys * Dk + there * Dv, q, 2 * to.keys * Dk + i * Dv, Dv);
	}

	void move_key(size_t r, size_t q, size_t i)
	{
		size_t key = q * to.heads / group + i, p = key * group / from.heads, there = key - p * from.heads / group;

		for (size_t section = 0; section < 2; section++)
			move_channels(r, p, (section * from.keys + there) * Dk, q, (section * to.keys + i) * Dk, Dk);
	}

	/* Memory for those of n ranks that this process has: with what t holds of them, or poison. */
	std::vector<buffer> room(const tensor &t, size_t n, bool filled) const
	{
		std::vector<buffer> list(n);

		for (size_t p = 0; p < n; p++) {
			if (process(p) != all.mine())
				continue;
			list[p] = buffer(t.bytes / n);
			if (filled)
				list[p].upload(static_cast<const char *>(t.data) + p * t.bytes / n);
			else
				list[p].poison();
		}
		return list;
	}

	void fetch(tensor &t, const std::vector<buffer> &list) const
	{
		for (size_t q = 0; q < list.size(); q++)
			if (process(q) == all.mine())
				list[q].download(static_cast<char *>(t.data) + q * t.bytes / list.size());
	}

	void run()
	{
		state_from = room(state, from.ranks, true);
		conv_from = room(conv, from.ranks, true);
		state_to = room(state_out, to.ranks, false);
		conv_to = room(conv_out, to.ranks, false);
		all.wait();
		for (size_t r = 0; r < N; r++) {
			all.begin_together();
			for (size_t q = 0; q < to.ranks; q++) {
				for (size_t i = 0; i < to.heads; i++)
					move_head(r, q, i);
				for (size_t i = 0; i < to.keys; i++)
					move_key(r, q, i);
			}
			all.end_together();
		}
		all.wait();
		fetch(state_out, state_to);
		fetch(conv_out, conv_to);
	}
};

}

const char *run_state_transfer(capture &c, ranks &all)
{
	transfer(c, all).run();
	return "state_transfer";
}
