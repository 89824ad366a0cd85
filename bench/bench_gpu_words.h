/* The words of docs/performance-gpu.md; part of bench_gpu_page.cu. */
#ifndef ETALON_BENCH_GPU_WORDS_H
#define ETALON_BENCH_GPU_WORDS_H

/* In the page's order. errors: of what. A %s stands for the size behind the name. */
static const struct { const char *name, *title, *errors; } works[] = {
	{ "decode_f32", "decode, rows: %s, states f32", "y, states" },
	{ "decode_bf16", "decode, rows: %s, states bf16", "y, states" },
	{ "prefill", "prefill, 4096 tokens", "o, state" },
	{ "norm_residual", "norm with residual, 4096 × 5120", "y, sum" },
	{ "norm", "norm, 4096 × 5120", "y" },
	{ "norm_fp8", "norm with residual into e4m3, 4096 × 5120", "y, scale" },
	{ "norm_gated", "norm gated by SiLU, 196608 × 128", "y" },
	{ "heads", "q/k norm, turn, gate split, %s tokens", "q, k" },
	{ "gated_attention", "sigmoid(gate) x, 4096 × 6144", "y" },
	{ "gated_expert", "sigmoid(hidden w) x + routed, 4096 × 2048", "y" },
	{ "rope", "turn, 4096 × 24 × 256", "y" },
	{ "convolution", "convolution and SiLU, 4096 × 10240, 4 taps", "y" },
	{ "symmetric", "A A', A [%s], f16", "" },
	{ "schulz", "Newton-Schulz x 5 of [%s], f16", "y" },
	{ "muon", "Muon around it, [%s], f32", "" },
};

/* Of a line about the device, and who the rivals are. */
static const char page_head[] =
	"# How fast on a GPU\n"
	"Written by `make bench-gpu` on %s. Ways of doing a work\ntake turns as CUDA graphs. Qwen3.5-27B's sizes, bf16, unless "
	"said. What each rung is, and what it gained: [the ladder](ladder.md).\n\n"
	"- *moved*: each input read once and each output written once (decode: the states alone), or operations that the result needs.\n"
	"- *of the limit*: of the rate of a device copy of as many bytes, or of cuBLAS' best product, in the same rounds;\n  *floor*: the "
	"time at that rate.\n"
	"- *error*: |x - y| / |y| of the outputs named below, y etalon's reference in float64 on the same numbers; of "
	"Newton-Schulz\n  the standard iteration in f32. Rivals got the same numbers, and their errors are in parentheses.\n"
	"- Rivals: %s. They are replayed from graphs too, so that no launch from\n  Python counts. An empty cell: that rival was not "
	"asked, or not reached. flash-linear-attention decodes the bare recurrence: no convolution,\n  gates, norm or slot table. "
	"Decoding goes over as many states that no cache holds them.\n\n"
	"What the compiler gave each kernel: [kernels](kernels.md).\n\n"
	"| work | kernel | µs | moved | of the limit | floor µs | error | PyTorch | torch.compile | flash-linear-attention |\n"
	"|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n";

#endif
