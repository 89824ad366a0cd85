/* y = x W' + bias, the columns of W and of x split over ranks: each rank multiplies its columns, and the
 * products are added.
 *
 * x [R,K], weight [D,K], bias [D] in bf16; y [P,R,D] in bf16 or f32, in which the products travel and are
 * added too; rungs 1 and 2 of f32: they travel and are added in bf16, in e4m3. */
#include "gpu/nccl/partial_product.cuh"
#include "gpu/nccl/travel.cuh"

template <class F> __global__ void add_bias(F *y, operand bias, int D, size_t n)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	if (i < n)
		from_float(y[i], to_float(y[i]) + bias.at(i % (size_t)D));
}

template <class Out> static void run(capture &c, ranks &all)
{
	const tensor &x = *capture_in(&c, "x"), &weight = *capture_in(&c, "weight"), *bias = capture_in(&c, "bias");
	size_t R = x.shape[0], D = weight.shape[0], per = x.shape[1] / (size_t)all.size();
	std::vector<char> a = share_of(x, 1, all), b = share_of(weight, 1, all);
	buffer rows = on_device(a.data(), a.size()), columns = on_device(b.data(), b.size());
	buffer added = bias ? on_device(bias->data, bias->bytes) : buffer(), part(R * D * sizeof(Out));

	multiply_part(all.stream(), rows.as<bf16>(), columns.as<bf16>(), part.as<Out>(), R, D, per);
	add_over_ranks<Out>(all, part.as<Out>(), R * D, travel_rung<Out>(c));
	if (bias)
		launch_on(all.stream(), "add_bias", add_bias<Out>, blocks(R * D, 256), 256, 0, part.as<Out>(),
		          operand{ added.as<void>(), bias->dtype }, (int)D, R * D);
	all.wait();
	part.download(part_of(*capture_out(&c, "y"), all));
}

const char *run_row_parallel(capture &c, ranks &all)
{
	const tensor *y = capture_out(&c, "y");

	for (const char *name : { "x", "weight" })
		if (capture_in(&c, name)->dtype != DT_BF16)
			refuse(E_DTYPE, name, "BF16, not %s", dtype_info[capture_in(&c, name)->dtype].name);
	float_dtypes({ capture_in(&c, "bias") });
	if (!y || capture_out(&c, "shard"))
		refuse(E_OP, c.op, "this kernel leaves the whole sum on each rank: out.y alone");
	if (y->dtype != DT_BF16 && y->dtype != DT_F32)
		refuse(E_DTYPE, "y", "BF16 or F32, not %s", dtype_info[y->dtype].name);
	(y->dtype == DT_BF16 ? run<bf16> : run<float>)(c, all);
	return "row_parallel";
}
