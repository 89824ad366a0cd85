/* Contracts by the types of a dump. */
#include "logits_contracts.h"

#include <math.h>
#include <string.h>

#include "compare/layers/model_reading.h"
#include "logits_causes.h"

static int sites_of(const struct contract *k)
{
	int n = 0;

	for (int i = 0; i < MAX_SITE; i++) n += k->site[i].on;
	return n;
}

/* The contract that rounds at the most sites of a layer. */
static const char *loosest(void)
{
	const struct contract *k = model_op(LINEAR_ATTENTION)->contracts, *most = k;

	for (; k->name; k++)
		if (sites_of(k) > sites_of(most)) most = k;
	return most->name;
}

static void add(struct logits_contracts *c, const char *name, enum dtype type)
{
	char *text = c->name[c->n];
	size_t n = strlen(name), tail = strlen("bf16");

	if (c->n == MAX_CONTRACTS) return;
	if (type == DT_F16) snprintf(text, CONTRACT_NAME, "%.*sf16", (int)(n - tail), name);
	else snprintf(text, CONTRACT_NAME, "%s", name);
	for (int i = 0; i < c->n; i++)
		if (!strcmp(c->name[i], text)) return;
	c->n++;
}

/* What the engine computes in: the narrowest type of its hidden states and logits. */
static enum dtype type_of(const struct tensors *file, const struct tensor *logits)
{
	enum dtype type = logits->dtype;
	char prefix[128], states[136];

	if (!causes_readable(file, logits) || !causes_prefix(logits, prefix, sizeof prefix)) return type;
	snprintf(states, sizeof states, "%shidden.", prefix);
	for (size_t i = 0; i < file->n; i++)
		if (!strncmp(file->item[i].name, states, strlen(states)) && dtype_info[file->item[i].dtype].is_float
			&& dtype_info[file->item[i].dtype].size < dtype_info[type].size) type = file->item[i].dtype;
	return type;
}

/* The nearest of the kind, if one is, then the loosest. */
static void add_nearest(struct logits_contracts *c, const struct model *m, size_t tokens, const struct engine *engine, enum dtype type)
{
	char nearest[CONTRACT_NAME] = "";
	double least = engines_own_contract;

	for (const struct contract *k = model_op(PART_HEAD)->contracts; k->name; k++) {
		struct logits_contracts one = { 0 };
		if (!sites_of(k)) continue;
		add(&one, k->name, type);
		double left = model_nearness(m, one.name[0], tokens, engine);
		if (left < least) least = left, snprintf(nearest, sizeof nearest, "%s", k->name);
	}
	if (*nearest) add(c, nearest, type);
	add(c, loosest(), type);
}

static void add_all(struct logits_contracts *c, enum dtype type)
{
	for (const struct contract *k = model_op(PART_HEAD)->contracts; k->name; k++)
		if (sites_of(k)) add(c, k->name, type);
}

void logits_contracts(struct logits_contracts *c, const struct model *m, size_t tokens, const struct tensors *file,
	const struct tensor *logits)
{
	enum dtype type = type_of(file, logits);
	bool wide = type != DT_BF16 && type != DT_F16;
	char prefix[128];
	struct engine engine = { .file = file, .prefix = prefix };

	*c = (struct logits_contracts){ 0 };
	if (wide) add(c, model_op(PART_HEAD)->contracts->name, DT_F32);
	if (!causes_readable(file, logits) || !causes_prefix(logits, prefix, sizeof prefix)) {
		add_all(c, wide ? DT_BF16 : type);
		return;
	}
	if (wide) add(c, loosest(), DT_F16);
	add_nearest(c, m, tokens, &engine, wide ? DT_BF16 : type);
}
