/* Each known fault planted in one random layer of a tiny model: is the layer named, and the fault? And, with logits
 * only, in all layers of its kind. usage: model_faults SEED FIRST COUNT [logits] */
#include "fixtures/io/random.h"
#include "tests/model_bed.h"

static uint64_t state;
static size_t draw(size_t n)
{
	return (size_t)(random_next(&state) % n);
}

enum { TOKENS = 40 };
struct plant { const struct bed *bed; const char *contract; int layer, fault; };

enum { RIGHT, ALIAS, LAYER_ONLY, WRONG, UNSEEN, FATES };
static const char *const fate[FATES] = { "named", "another first", "layer only", "wrong layer", "unseen" };
static const char *const contracts[] = { "torch_bf16", "f32" };

/* One for each fault of each kind: a model, a layer of the kind and a contract by lot. */
static int plants(const struct bed *beds, struct plant *list)
{
	int n = 0;

	for (int kind = 0; kind < LAYER_KINDS; kind++)
		for (int m = 0; model_op(kind)->faults[m].name; m++)
			for (int tries = 0; tries < 200; tries++) {
				const struct bed *b = &beds[draw(2)];
				size_t layer = draw(b->model.config.layers);
				if ((int)b->model.config.kind[layer] != kind || !bed_has(b, layer, model_op(kind)->faults[m].name)) continue;
				list[n++] = (struct plant){ b, contracts[draw(2)], (int)layer, m };
				break;
			}
	return n;
}

static int judge_hidden(const struct plant *p, struct error *e)
{
	struct model_plan plan = bed_plan(p->bed, p->contract, p->layer, p->fault);
	struct tensors engine;
	struct layer_reading r;

	if (!bed_engine(p->bed, &plan, TOKENS, strcmp(p->contract, "f32") ? DT_BF16 : DT_F32, &engine, e)) abort();
	int first = bed_first(p->bed, p->contract, &engine, &r, e), result = LAYER_ONLY;
	tensors_free(&engine);
	if (first == NOWHERE) return UNSEEN;
	if (first != p->layer) return WRONG;
	if (r.n) printf("  %s %.4f %%", r.detected[0].name, 100 * r.detected[0].explained);
	for (int i = 0; i < r.n; i++)
		if (r.detected[i].kind == SUSPECT_FAULT && r.detected[i].index == p->fault) result = i ? ALIAS : RIGHT;
	return result;
}

static int judge_logits(const struct plant *p, struct error *e)
{
	enum layer_kind kind = p->bed->model.config.kind[p->layer];
	struct model_plan plan = bed_plan(p->bed, p->contract, 0, -1);
	struct model_suspect found[4];
	struct tensors engine;
	double alone;

	model_plan_fault(&plan, kind, NOWHERE, p->fault);
	if (!bed_engine(p->bed, &plan, TOKENS, DT_F32, &engine, e)) abort();
	int n = model_suspects(&p->bed->model, p->contract, p->bed->ids, TOKENS, tensors_find(&engine, "logits"), found, 4, &alone, e);
	tensors_free(&engine);
	if (n > 0) printf("  %s %.4f %%", model_op((int)found[0].kind)->faults[found[0].fault].name, 100 * found[0].explained);
	for (int i = 0; i < n; i++)
		if (found[i].kind == kind && found[i].fault == p->fault) return i ? ALIAS : RIGHT;
	return n ? WRONG : UNSEEN;
}

int main(int argc, char **argv)
{
	static struct plant list[LAYER_KINDS * 2 * MAX_FAULT];
	struct bed beds[2];
	struct error e;
	int count[FATES] = { 0 };

	state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	if (!bed_make(&beds[0], "dense", &e) || !bed_make(&beds[1], "moe", &e)) {
		error_print(stderr, &e);
		return EXIT_INPUT;
	}
	int n = plants(beds, list), first = argc > 2 ? atoi(argv[2]) : 0, last = argc > 3 ? first + atoi(argv[3]) : n;
	for (int i = first; i < last && i < n; i++) {
		const struct op *op = model_op((int)list[i].bed->model.config.kind[list[i].layer]);
		printf("%-5s %-11s layer %d %-17s %-42s", list[i].bed == beds ? "dense" : "moe", list[i].contract, list[i].layer, op->name,
			op->faults[list[i].fault].name);
		int f = argc > 4 ? judge_logits(&list[i], &e) : judge_hidden(&list[i], &e);
		printf("  %s\n", fate[f]);
		fflush(stdout);
		count[f]++;
	}
	for (int f = 0; f < FATES; f++) printf("%s%d %s", f ? ", " : "", count[f], fate[f]);
	printf(" of %d\n", n);
	bed_free(&beds[0]);
	bed_free(&beds[1]);
	return count[WRONG] || count[LAYER_ONLY] ? EXIT_FAIL : EXIT_PASS;
}
