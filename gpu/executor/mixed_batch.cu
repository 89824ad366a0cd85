/* The executor's CUDA backend (gpu/executor.h; kernels: gpu/executor_kernels.cuh), and the op mixed_batch
 * on it: the steps of a capture, played by gpu/mixed_batch_play.c with the decode rows replayed from graphs. */
#include "gpu/executor/executor_cuda.cuh"
#include "gpu/executor/mixed_batch.h"

#include <memory>

/* How executors that are opened decode. */
static thread_local enum decode_way asked = DECODE_IN_ONE;

static unsigned promises(const struct executor_shape *s)
{
	return PROMISE_BATCH | (prefills_in_chunks(*s) ? 0 : PROMISE_SPLIT | PROMISE_F32);
}

static device_executor *of(void *b) { return static_cast<device_executor *>(b); }

static void *open(const struct executor_shape *s, const struct executor_weights *w, struct error *e)
{
	device_executor *x = nullptr;

	caught("open", e, [&] {
		first_device();
		auto made = std::make_unique<device_executor>(*s, *w);
		if (asked != DECODE_IN_ONE && asked != DECODE_IN_THREE && made->decode != DECODE_IN_ONE)
			refuse(E_DIM, "Dk, Dv, W", "%d, %d, %d: decoding in one launch is for other sizes", s->Dk, s->Dv, s->W);
		if (asked != DECODE_IN_ONE)
			made->decode = asked;
		x = made.release();
	});
	return x;
}

static void close(void *b) { delete of(b); }

static bool run(void *b, const struct executor_step *step, const struct executor_data *data, bool replay, struct error *e)
{
	return caught("run", e, [&] { of(b)->run(*step, *data, replay); });
}

static bool read(void *b, size_t slot, void *states, void *rings, struct error *e)
{
	return caught("read", e, [&] { of(b)->read(slot, states, rings); });
}

static bool write(void *b, size_t slot, const void *states, const void *rings, struct error *e)
{
	return caught("write", e, [&] { of(b)->write(slot, states, rings); });
}

static bool guards(void *b, struct error *e)
{
	return caught("guards", e, [&] { of(b)->check_guards(); });
}

const struct executor_backend *executor_cuda(struct error *)
{
	static const struct executor_backend backend = { "cuda", promises, open, close, run, read, write, guards };

	return &backend;
}

const char *run_mixed_batch(capture &c)
{
	static const char *const names[] = { "mixed_batch in three kernels", "mixed_batch, few rows", "mixed_batch, many rows", "mixed_batch" };
	struct error e = {};

	asked = (enum decode_way)rung_of(c, DECODE_IN_ONE);
	bool played = mixed_batch_play(executor_cuda(&e), true, &c, &e);
	const char *name = names[asked];
	asked = DECODE_IN_ONE;
	if (!played)
		throw e;
	return name;
}
