/* The heads of a gated delta layer split over ranks: each rank runs its heads through the rule and the
 * gated norm, and multiplies them by its columns of the output projection; the products are added.
 *
 * q, k [T,Hk,Dk], v, z [T,Hv,Dv], a, b [T,Hv], out_weight [E,Hv,Dv] in bf16; A_log, dt_bias [Hv],
 * norm_weight [Dv]; states [Hv,Dk,Dv] in f32; y [P,T,E] in bf16 or f32, in which the products travel and
 * are added too. What one kernel hands on to the next is bf16. */
#include "gpu/kernels/delta_rule.cuh"
#include "gpu/kernels/rmsnorm.cuh"
#include "gpu/nccl/partial_product.cuh"
#include "gpu/nccl/travel.cuh"

#include <cmath>

/* This rank's heads of an input whose axis `axis` they are; data NULL where it is missing. */
struct of_my_heads {
	buffer at;
	enum dtype dtype = DT_F32;

	of_my_heads(const capture &c, const char *name, int axis, const ranks &all)
	{
		const tensor *t = capture_in(&c, name);

		if (!t)
			return;
		std::vector<char> share = share_of(*t, axis, all);
		at = on_device(share.data(), share.size());
		dtype = t->dtype;
	}
	operand any() const { return { at.as<void>(), dtype }; }
};

template <class Out> static void run(capture &c, ranks &all)
{
	size_t P = (size_t)all.size();
	const tensor &keys = *capture_in(&c, "k"), &values = *capture_in(&c, "v"), &out_weight = *capture_in(&c, "out_weight");
	const tensor &weight = *capture_in(&c, "norm_weight");
	size_t T = keys.shape[0], Hk = keys.shape[1] / P, Hv = values.shape[1] / P, Dk = keys.shape[2], Dv = values.shape[2];
	size_t E = out_weight.shape[0];
	of_my_heads q(c, "q", 1, all), k(c, "k", 1, all), v(c, "v", 1, all), z(c, "z", 1, all), a(c, "a", 1, all), b(c, "b", 1, all);
	of_my_heads A_log(c, "A_log", 0, all), dt_bias(c, "dt_bias", 0, all), w(c, "out_weight", 1, all);
	of_my_heads initial(c, "initial_state", 0, all);
	const std::vector<int64_t> ends = { 0, (int64_t)T };
	buffer cuts = uploaded(ends), o(T * Hv * Dv * sizeof(bf16)), heads(T * Hv * Dv * sizeof(bf16)), kept(Hv * Dk * Dv * sizeof(float));
	buffer part(T * E * sizeof(Out)), norm_weight = on_device(weight.data, weight.bytes);
	rule m = {
		a.any(), b.any(), A_log.any(), dt_bias.any(), {}, {}, small(Hk, "Hk"), small(Hv, "Hv"),
		small(Dk, "Dk", MAX_DK), small(Dv, "Dv"), true, true, (float)capture_number(&c, "l2_eps", 1e-6),
		(float)(1 / std::sqrt((double)Dk))
	};
	row_norm<bf16> rows = {
		o.as<bf16>(), nullptr, z.at.as<bf16>(), { norm_weight.as<void>(), weight.dtype }, heads.as<bf16>(),
		nullptr, T * Hv, (int)Dv, (float)capture_number(&c, "norm_eps", 1e-6), 0.0f
	};

	prefill_token_by_token<bf16>(m, { q.at.as<bf16>(), k.at.as<bf16>(), v.at.as<bf16>(), o.as<bf16>() },
	                             cuts.as<int64_t>(), 1, initial.any(), { kept.as<void>(), DT_F32 }, all.stream());
	norm_rows(all.stream(), rows, NORM_PIECES);
	multiply_part(all.stream(), heads.as<bf16>(), w.at.as<bf16>(), part.as<Out>(), T, E, Hv * Dv);
	add_over_ranks<Out>(all, part.as<Out>(), T * E, travel_rung<Out>(c));
	all.wait();
	part.download(part_of(*capture_out(&c, "y"), all));
	kept.download(part_of(*capture_out(&c, "final_state"), all));
}

const char *run_sharded_delta(capture &c, ranks &all)
{
	const tensor *y = capture_out(&c, "y"), *state = capture_out(&c, "final_state");

	for (const char *name : { "q", "k", "v", "a", "b", "z", "out_weight" })
		if (capture_in(&c, name)->dtype != DT_BF16)
			refuse(E_DTYPE, name, "BF16, not %s", dtype_info[capture_in(&c, name)->dtype].name);
	float_dtypes({ capture_in(&c, "A_log"), capture_in(&c, "dt_bias"), capture_in(&c, "norm_weight") });
	if (state->dtype != DT_F32)
		refuse(E_DTYPE, "final_state", "F32, not %s", dtype_info[state->dtype].name);
	if (y->dtype != DT_BF16 && y->dtype != DT_F32)
		refuse(E_DTYPE, "y", "BF16 or F32, not %s", dtype_info[y->dtype].name);
	(y->dtype == DT_BF16 ? run<bf16> : run<float>)(c, all);
	return "sharded_delta";
}
