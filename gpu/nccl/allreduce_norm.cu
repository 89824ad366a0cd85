/* The sum of the ranks' parts, plus the residual, and the RMS norm.
 *
 *   u = sum_p x[p] + residual,  residual_out = u,  y = u (mean u^2 + eps)^-1/2 (weight_offset + weight)
 *
 * x, y, residual_out [P,R,D]; residual, shard [R,D]; weight [D]. All of one type, but for the weight.
 *
 * With out.shard each rank gets the sum of its share of the rows alone (reduce-scatter), norms those and
 * gathers the normed rows; else every rank gets all of the sum (all-reduce).
 *
 * Rung 0: parts travel, and are added, as they are stored. Rungs 1 and 2: float32 parts travel and are
 * added in bf16, in e4m3. Numbers: behind the sum float32 from load to store. */
#include "gpu/kernels/rmsnorm.cuh"
#include "gpu/nccl/travel.cuh"

/* What follows the sum, of `rows` rows; residual NULL: none. */
template <class F>
static void norm(const capture &c, cudaStream_t stream, const F *sum, const F *residual, F *y, F *u, size_t rows)
{
	const tensor &weight = *capture_in(&c, "weight");
	buffer w = on_device(weight.data, weight.bytes);
	row_norm<F> m = {
		sum, residual, nullptr, { w.as<void>(), weight.dtype }, y, u, rows, small(weight.count, "D"),
		(float)capture_number(&c, "eps", 1e-6), (float)capture_number(&c, "weight_offset", 0)
	};

	norm_rows(stream, m, NORM_HELD);
	check(cudaStreamSynchronize(stream), "norm");
}

template <class F> static void reduced(capture &c, ranks &all, buffer &part, const F *residual, size_t R, size_t D)
{
	tensor &y = *capture_out(&c, "y"), *residual_out = capture_out(&c, "residual_out");
	buffer normed(R * D * sizeof(F)), u(R * D * sizeof(F));

	add_over_ranks<F>(all, part.as<F>(), R * D, travel_rung<F>(c));
	norm<F>(c, all.stream(), part.as<F>(), residual, normed.as<F>(), u.as<F>(), R);
	normed.download(part_of(y, all));
	if (residual_out)
		u.download(part_of(*residual_out, all));
}

template <class F> static void scattered(capture &c, ranks &all, buffer &part, const F *residual, size_t R, size_t D)
{
	tensor &y = *capture_out(&c, "y"), &shard = *capture_out(&c, "shard");
	size_t rows = R / (size_t)all.size(), each = rows * D, before = (size_t)all.mine() * each;
	buffer sum(each * sizeof(F)), u(each * sizeof(F)), normed(R * D * sizeof(F));

	if (capture_out(&c, "residual_out") || R % (size_t)all.size())
		refuse(E_DIM, "shard", "%zu rows on %d ranks; rows that stay scattered are shared out evenly, without"
		       " out.residual_out", R, all.size());
	rung_of(c, 0);
	all.reduce_scatter(part.as<F>(), sum.as<F>(), each, travels_as<F>);
	norm<F>(c, all.stream(), sum.as<F>(), residual ? residual + before : nullptr, normed.as<F>() + before,
	        u.as<F>(), rows);
	all.all_gather(normed.as<F>() + before, normed.as<F>(), each, travels_as<F>);
	all.wait();
	normed.download(part_of(y, all));
	u.download(part_of(shard, all));
}

const char *run_allreduce_norm(capture &c, ranks &all)
{
	const tensor &x = *capture_in(&c, "x"), *residual = capture_in(&c, "residual");
	const tensor *shard = capture_out(&c, "shard");

	same_dtype({ &x, residual, capture_out(&c, "y"), capture_out(&c, "residual_out"), shard });
	by_dtype(x, [&](auto zero) {
		using F = decltype(zero);
		buffer part = on_device(part_of(x, all), part_bytes(x, all));
		buffer added = residual ? on_device(residual->data, residual->bytes) : buffer();
		(shard ? scattered<F> : reduced<F>)(c, all, part, added.as<F>(), x.shape[1], x.shape[2]);
	});
	return shard ? "reduce_scatter_norm_all_gather" : "allreduce_norm";
}
