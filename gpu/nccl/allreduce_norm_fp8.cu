/* The sum of the ranks' parts plus the residual, the RMS norm, and e4m3.
 *
 *   u = sum_p x[p] + residual,  residual_out = u,  z = u (mean u^2 + eps)^-1/2 (weight_offset + weight)
 *   y = e4m3(z / scale), to nearest even, at most 448; scale = given, or of each row
 *   max(max |z| / 448, min_scale)
 *
 * x, y, residual_out [P,R,D]; residual [R,D]; weight [D]; scale [P,R]; given [1]. x, residual and
 * residual_out in bf16. */
#include "gpu/kernels/rmsnorm_fp8.cuh"
#include "gpu/nccl/travel.cuh"

enum { BLOCK = 256 };

/* A block a row, which it keeps in shared memory; one scale for all rows. */
template <class F> __global__ void __launch_bounds__(BLOCK) norm_by_given_scale(quantised_norm<F> q)
{
	extern __shared__ float row_of[];       /* [D] */
	__shared__ float sums[32];
	const row_norm<F> &m = q.rows;
	size_t row = (size_t)blockIdx.x * m.D;
	float squares = 0.0f, scale = q.scale[0];

	for (int i = (int)threadIdx.x; i < m.D; i += BLOCK) {
		float x[1];
		load_sum(x, m, row + i);
		store(m.residual_out + row + i, x);
		squares += x[0] * x[0];
		row_of[i] = x[0];
	}
	float inverse = 1.0f / sqrtf(block_sum(squares, sums) / (float)m.D + m.eps);
	for (int i = (int)threadIdx.x; i < m.D; i += BLOCK) {
		float z = row_of[i] * inverse * (m.offset + m.weight.at(i));
		q.y[row + i] = __nv_cvt_float_to_fp8(z / scale, __NV_SATFINITE, __NV_E4M3);
	}
}

/* Types, of all that the kernel reads and writes. */
static void check_types(const capture &c)
{
	const tensor *x = capture_in(&c, "x"), *y = capture_out(&c, "y");

	same_dtype({ x, capture_in(&c, "residual"), capture_out(&c, "residual_out") });
	float_dtypes({ capture_in(&c, "weight") });
	if (x->dtype != DT_BF16 || y->dtype != DT_F8_E4M3)
		refuse(E_DTYPE, "x, y", "BF16 and F8_E4M3, not %s and %s", dtype_info[x->dtype].name,
		       dtype_info[y->dtype].name);
	for (const tensor *t : { capture_in(&c, "given"), capture_out(&c, "scale") })
		if (t && t->dtype != DT_F32)
			refuse(E_DTYPE, t->name, "F32, not %s", dtype_info[t->dtype].name);
}

const char *run_allreduce_norm_fp8(capture &c, ranks &all)
{
	check_types(c);

	const tensor &x = *capture_in(&c, "x"), &residual = *capture_in(&c, "residual");
	const tensor &weight = *capture_in(&c, "weight"), *given = capture_in(&c, "given");
	tensor *scale = capture_out(&c, "scale"), *residual_out = capture_out(&c, "residual_out");
	size_t R = x.shape[1], D = x.shape[2], row = (size_t)small(D, "D", 49152 / sizeof(float) - 64) * sizeof(float);
	buffer part = on_device(part_of(x, all), part_bytes(x, all)), added = on_device(residual.data, residual.bytes);
	buffer w = on_device(weight.data, weight.bytes), quantised(R * D), u(part_bytes(x, all));
	buffer scales = given ? on_device(given->data, given->bytes) : buffer(R * sizeof(float));
	row_norm<bf16> rows = {
		part.as<bf16>(), added.as<bf16>(), nullptr, { w.as<void>(), weight.dtype }, nullptr, u.as<bf16>(), R,
		(int)D, (float)capture_number(&c, "eps", 1e-6), (float)capture_number(&c, "weight_offset", 0)
	};
	quantised_norm<bf16> q = {
		rows, quantised.as<uint8_t>(), scales.as<float>(), (float)capture_number(&c, "min_scale", 0x1p-18)
	};

	add_over_ranks<bf16>(all, part.as<bf16>(), R * D, travel_rung<bf16>(c));
	if (given)
		launch_on(all.stream(), "norm_by_given_scale", norm_by_given_scale<bf16>, blocks(R, 1), BLOCK, row, q);
	else
		quantise_rows(all.stream(), q, FP8_HELD);
	all.wait();
	quantised.download(part_of(*capture_out(&c, "y"), all));
	if (scale)
		scales.download(part_of(*scale, all));
	if (residual_out)
		u.download(part_of(*residual_out, all));
	return "allreduce_norm_fp8";
}
