#include "record_model.h"

#include "cli.h"
#include "gpu/engine/model.h"
#include "compare/logits/logits.h"

/* What was never computed is NaN; so is what went wrong. */
static bool all_numbers(const struct tensors *dump, struct error *e)
{
	for (size_t i = 0; i < dump->n; i++) {
		const struct tensor *t = &dump->item[i];
		double x;
		size_t first;
		if (tensor_not_finite(t, &first, &x))
			return error_set(e, E_DEVICE, t->name, NO_OFFSET,
				"the engine left %g in element %zu of %zu", x, first, t->count);
	}
	return true;
}

/* The floor of a decoded token: its weights are read, at the rate at which a copy reads and writes. */
static void print_times(const struct engine_times *t, size_t tokens)
{
	double floor = t->weight_bytes / t->copy_rate * 1e3;

	printf("prefill of %zu tokens %.3f ms; a decoded token behind them %.3f ms, %.0f %% of the rate of a copy "
		"(%.2f GB of weights at %.0f GB/s: %.3f ms)\n", tokens, t->prefill, t->decode, 100 * floor / t->decode,
		t->weight_bytes * 1e-9, t->copy_rate * 1e-9, floor);
}

int record_model(const struct record_model *a)
{
	struct tensors file = { 0 }, dump = { 0 };
	struct engine_times times;
	struct error e = { 0 };
	const struct tensor *ids = tensor_at(&file, a->ids, &e);
	bool ok = ids && engine_run(a->folder, ids, a->decoded, &dump, a->time ? &times : NULL, &e) && all_numbers(&dump, &e)
		&& tensors_write(&dump, a->file, &e);
	int status = ok ? EXIT_PASS : print_failure(&e);

	if (ok && a->json) {
		json_t *j = json_pack("{s:s,s:s,s:s,s:s}", "file", a->file, "producer", meta_get(&dump, "etalon.producer"), "device",
			meta_get(&dump, "etalon.device"), "contract", meta_get(&dump, "etalon.contract"));
		if (j && a->time)
			json_object_update_new(j, json_pack("{s:f,s:f,s:f,s:f}", "prefill_ms", times.prefill, "decode_ms", times.decode, "weight_bytes",
				times.weight_bytes, "copy_bytes_per_second", times.copy_rate));
		status = json_print(j);
	} else if (ok) {
		printf("%s  %s, %s\n", a->file, meta_get(&dump, "etalon.producer"), meta_get(&dump, "etalon.device"));
		if (a->time) print_times(&times, ids->count);
	}
	tensors_free(&file);
	tensors_free(&dump);
	return status;
}
