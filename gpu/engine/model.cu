/* engine_run: what the engine computes, as a file that `etalon logits` judges. */
#include "gpu/engine/model.h"

#include <cstring>

#include "gpu/host/backend.h"
#include "gpu/engine/model_engine.h"

enum { ROUNDS = 9 };            /* timed */

static std::vector<int32_t> ids_of(const tensor &t, int V)
{
	int batch = t.rank == 2 && t.shape[0] == 1;
	std::vector<int32_t> ids;

	if (t.rank != 1 + batch || t.count == 0)
		refuse(E_DIM, t.name, "expected token ids, [T] or [1,T]");
	for (int64_t id : integers(t)) {
		if (id < 0 || id >= V)
			refuse(E_VALUE, t.name, "id %lld is not in the vocabulary of %d", (long long)id, V);
		ids.push_back((int32_t)id);
	}
	return ids;
}

static void *add(tensors *dump, const char *name, enum dtype d, std::initializer_list<size_t> shape)
{
	tensor *t = tensors_add(dump, name, d, (int)shape.size(), shape.begin());

	if (!t)
		refuse(E_MEMORY, name, "a tensor of the dump");
	return t->data;
}

static void keep(void *to, const bf16 *from, size_t count)
{
	check(cudaMemcpy(to, from, count * sizeof *from, cudaMemcpyDeviceToHost), "results");
}

/* Prefill, with all hidden states. */
static void dump_prefill(engine &x, const engine_sizes &s, const std::vector<int32_t> &ids, tensors *dump)
{
	size_t n = ids.size(), E = s.E, V = s.V;
	buffer logits(n * V * sizeof(bf16));

	x.forget();
	x.forward(ids.data(), n, [&](int l, const bf16 *hidden) {
		char name[32];
		snprintf(name, sizeof name, "hidden.%d", l);
		keep(add(dump, name, DT_BF16, { n, E }), hidden, n * E);
	});
	logits.poison();
	x.logits(logits.as<bf16>(), 0, n);
	keep(add(dump, "logits", DT_BF16, { n, V }), logits.as<bf16>(), n * V);
}

static void dump_decode(engine &x, const engine_sizes &s, const std::vector<int32_t> &ids, size_t decoded, tensors *dump)
{
	size_t V = s.V, before = ids.size() - decoded;
	bf16 *to = static_cast<bf16 *>(add(dump, "decode_logits", DT_BF16, { decoded, V }));
	buffer logits(V * sizeof(bf16));

	x.forget();
	x.forward(ids.data(), before, nullptr);
	for (size_t i = 0; i < decoded; i++) {
		logits.poison();
		x.forward(&ids[before + i], 1, nullptr);
		x.logits(logits.as<bf16>(), 0, 1);
		keep(to + i * V, logits.as<bf16>(), V);
	}
}

/* Of `work` on the default stream, after `before`. */
static double milliseconds(const std::function<void()> &before, const std::function<void()> &work)
{
	cudaEvent_t begin, end;
	std::vector<float> all(ROUNDS);

	check(cudaEventCreate(&begin), "event");
	check(cudaEventCreate(&end), "event");
	for (float &ms : all) {
		before();
		check(cudaEventRecord(begin), "event");
		work();
		check(cudaEventRecord(end), "event");
		check(cudaEventSynchronize(end), "event");
		check(cudaEventElapsedTime(&ms, begin, end), "event");
	}
	cudaEventDestroy(begin);
	cudaEventDestroy(end);
	std::sort(all.begin(), all.end());
	return all[ROUNDS / 2];
}

static double copy_rate()
{
	size_t bytes = (size_t)1 << 30;
	buffer from(bytes), to(bytes);

	return 2e3 * (double)bytes / milliseconds([] {}, [&] {
		check(cudaMemcpyAsync(to.as<void>(), from.as<void>(), bytes, cudaMemcpyDeviceToDevice, nullptr), "copy");
	});
}

static engine_times time_runs(engine &x, const engine_sizes &s, const std::vector<int32_t> &ids)
{
	buffer logits(s.V * sizeof(bf16));
	size_t n = ids.size();
	engine_times t = {};

	t.prefill = milliseconds([&] { x.forget(); }, [&] {
		x.forward(ids.data(), n, nullptr);
		x.logits(logits.as<bf16>(), n - 1, 1);
	});
	t.decode = milliseconds([] {}, [&] {
		x.forward(ids.data(), 1, nullptr);
		x.logits(logits.as<bf16>(), 0, 1);
	});
	t.weight_bytes = x.weight_bytes();
	t.copy_rate = copy_rate();
	return t;
}

static void stamp(tensors *dump, const char *key, const char *value)
{
	if (!meta_set(dump, key, value))
		refuse(E_MEMORY, key, "metadata");
}

static void run(const engine_folder &f, const tensor *given, size_t decoded, tensors *dump, engine_times *times)
{
	std::vector<int32_t> ids = ids_of(*given, f.sizes.V);
	char producer[64];

	if (decoded >= ids.size())
		refuse(E_USAGE, "decoded", "%zu of %zu tokens: at least one comes before", decoded, ids.size());
	cudaDeviceProp device = first_device();
	engine x(f, ids.size() + (times ? ROUNDS : 0));
	memcpy(add(dump, "input_ids", DT_I32, { ids.size() }), ids.data(), ids.size() * sizeof ids[0]);
	dump_prefill(x, f.sizes, ids, dump);
	if (decoded)
		dump_decode(x, f.sizes, ids, decoded, dump);
	if (times)
		*times = time_runs(x, f.sizes, ids);
	snprintf(producer, sizeof producer, "etalon engine, CUDA %d.%d", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
	stamp(dump, "etalon.producer", producer);
	stamp(dump, "etalon.device", device.name);
	stamp(dump, "etalon.contract", "etalon_bf16");
	stamp(dump, "etalon.source_sha256", gpu_source_sha256("model"));
}

bool engine_run(const char *folder, const tensor *ids, size_t decoded, tensors *dump, engine_times *times, struct error *e)
{
	engine_folder f;

	*dump = {};
	if (!engine_folder_read(&f, folder, e))
		return false;
	bool ok = caught(folder, e, [&] { run(f, ids, decoded, dump, times); });
	engine_folder_free(&f);
	return ok;
}
