/* What was found about logits, for people and for programs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "logits_causes.h"
#include "compare/print/print.h"

enum { SHOWN_FLIPS = 8 };

const char *logits_line(const struct logit_report *r, const struct logit_comparison *c, char *text, size_t size)
{
	static const char *const word[] = { [PASS] = "PASS", [FAIL] = "FAIL", [UNDECIDED] = "UNDECIDED" };
	int n = snprintf(text, size, "%s%s%s", word[r->outcome], c->under ? " under " : "", c->under ? c->under : "");

	if (n > 0 && (size_t)n < size && r->n_reason) snprintf(text + n, size - (size_t)n, ": %s", r->reason[0]);
	else if (n > 0 && (size_t)n < size && !r->has_sigma) snprintf(text + n, size - (size_t)n, ": the logits are equal");
	return text;
}

/* ---- text ---- */
struct line { const char *name; struct spread s; bool shown; };

static int spreads(const struct logit_report *r)
{
	static const char *const heading[] = { "per position", ">mean", ">50 %", ">90 %", ">99 %", ">99.9 %", ">max", ">at" };
	const struct line list[] = {
		{ "rms error", r->rms, true }, { "max error", r->max, true }, { "max error in sigma", r->in_sigma, r->has_sigma },
		{ "KL(reference||got)", r->kl, true }, { "KL(got||reference)", r->kl_back, true }
	};
	struct table t = { .columns = sizeof heading / sizeof *heading, .heading = heading };

	for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
		const struct spread *s = &list[i].s;
		if (!list[i].shown) continue;
		table_add(&t, "%s", list[i].name);
		for (const double *x = &s->mean; x <= &s->max; x++) table_add(&t, "%.4g", *x);
		table_add(&t, "%zu", s->at);
	}
	return table_print(&t);
}

static const char *flip_text(const struct logit_position *p)
{
	static const char *const text[FLIPS] = { [FLIP_TIE] = "no error: a tie of the reference",
		[FLIP_EMULATION] = "rounding: the emulation has it too",
		[FLIP_NOISE] = "no error: within the noise", [FLIP_BEYOND] = "BEYOND the noise", [FLIP_UNKNOWN] = "noise not known" };

	return text[p->flip];
}

static int flip_order(const void *a, const void *b)
{
	const struct logit_position *x = *(const struct logit_position *const *)a, *y = *(const struct logit_position *const *)b;
	double u = x->margin_reference / x->noise, v = y->margin_reference / y->noise;

	return u != v ? (u < v) - (u > v) : (x > y) - (x < y);
}

/* Flips, those first whose margin is the largest against its noise. */
static int flips(const struct logit_report *r)
{
	static const char *const heading[] = { ">position", ">reference's", ">margin", ">rank in got", ">got's", ">margin",
		">rank in reference", ">noise", "" };
	struct table t = { .columns = sizeof heading / sizeof *heading, .heading = heading };
	const struct logit_position **list = calloc(r->positions, sizeof *list);
	size_t n = 0;

	for (size_t i = 0; list && i < r->positions; i++)
		if (r->position[i].flip != NO_FLIP) list[n++] = &r->position[i];
	if (list) qsort(list, n, sizeof *list, flip_order);
	for (size_t i = 0; i < n && i < SHOWN_FLIPS; i++) {
		const struct logit_position *p = list[i];
		table_add(&t, "%zu", (size_t)(p - r->position));
		table_add(&t, "%zu", p->top_reference[0].token);
		table_add(&t, "%.4g", p->margin_reference);
		table_add(&t, "%zu", p->rank_got);
		table_add(&t, "%zu", p->top_got[0].token);
		table_add(&t, "%.4g", p->margin_got);
		table_add(&t, "%zu", p->rank_reference);
		table_add(&t, "%.3g", p->noise);
		table_add(&t, "%s", flip_text(p));
	}
	if (n) puts(n > SHOWN_FLIPS ? "\nfirst tokens that differ, the clearest first" : "\nfirst tokens that differ");
	int status = n ? table_print(&t) : EXIT_PASS;
	free(list);
	return status;
}

static void agreement(const struct logit_report *r)
{
	size_t n = r->positions - r->flips[NO_FLIP];

	printf("top-1       %zu of %zu agree (%.2f %%)", r->agree, r->positions, 100 * (double)r->agree / (double)r->positions);
	if (n) printf("; of %zu flips %zu are ties of the reference", n, r->flips[FLIP_TIE]);
	if (n && r->has_emulation) printf(", %zu the emulation's too", r->flips[FLIP_EMULATION]);
	if (n && r->has_sigma) printf(", %zu within the noise, %zu beyond it", r->flips[FLIP_NOISE], r->flips[FLIP_BEYOND]);
	else if (n) printf(", %zu of unknown noise", r->flips[FLIP_UNKNOWN]);
	printf("\ntop-%-2zu      %.3f tokens in common, the same set at %.2f %% of positions\n", r->top, r->common,
		100 * (double)r->same_set / (double)r->positions);
	if (r->targets > 0)
		printf("perplexity  %.6g, reference %.6g; difference of -log p %.3g ± %.2g over %zu tokens\n", exp(r->nll_got),
			exp(r->nll_reference), r->nll_difference, r->nll_error, r->targets);
	else if (r->has_ids)
		printf("perplexity  no token has a probability in both\n");
}

int logits_text(const struct logit_report *r, const struct logit_comparison *c, const struct logit_causes *causes)
{
	char line[512];

	printf("%s against %s\n  %zu positions of %zu tokens, %s against %s; error over all %.4g rms, %.4g at most", c->got->name,
		c->reference->name, r->positions, r->vocabulary, dtype_info[c->got->type].name, dtype_info[c->reference->type].name,
		r->rms_all, r->max_all);
	printf(r->masked ? "; %zu logits masked in both\n\n" : "\n\n", r->masked);
	int status = spreads(r);
	putchar('\n');
	agreement(r);
	if (r->has_emulation) printf("emulation     explains %.3f %% of the error\n", 100 * r->explained);
	for (int i = 0; r->has_sigma && i < LOGIT_RULES; i++)
		printf("%s%s %.4g (%.3g)", i ? ", " : "in sigma (limit)  ", logit_rule_name[i], r->rule[i].value, r->rule[i].limit);
	if (r->has_sigma) printf("; %zu noisy run%s, %.3g degrees of freedom\n", r->noise_runs, r->noise_runs == 1 ? "" : "s",
		r->freedom);
	if (r->truth) printf("truth       %s, on the first %zu tokens within %.2g sigma of %s\n", r->truth, r->truth_tokens, r->truth_error,
		r->truth_by);
	status = status ? status : flips(r);
	if (causes) causes_text(stdout, causes);
	for (int i = 1; i < r->n_reason; i++) printf("  %s\n", r->reason[i]);
	puts(logits_line(r, c, line, sizeof line));
	return status;
}

/* ---- JSON ---- */
static json_t *json_spread(const struct spread *s)
{
	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:I}", "mean", json_figure(s->mean), "p50", json_figure(s->p50),
		"p90", json_figure(s->p90), "p99", json_figure(s->p99), "p99.9", json_figure(s->p999), "max",
		json_figure(s->max),
		"at", (json_int_t)s->at);
}

static json_t *json_ranked(const struct ranked *list, size_t n)
{
	json_t *j = json_array();

	for (size_t i = 0; i < n; i++) json_array_append_new(j, json_pack("{s:I,s:o}", "token", (json_int_t)list[i].token, "logit",
		json_figure(list[i].value)));
	return j;
}

static json_t *json_position(const struct logit_report *r, size_t t)
{
	const struct logit_position *p = &r->position[t];
	json_t *j = json_pack("{s:I,s:o,s:o,s:o,s:o,s:o,s:I,s:I,s:I,s:I,s:I,s:I,s:o,s:o}", "position", (json_int_t)t, "kl",
		json_figure(p->kl),
		"kl_back", json_figure(p->kl_back), "rms", json_figure(p->rms), "max", json_figure(p->max), "mean",
		json_figure(p->mean),
		"worst_token", (json_int_t)p->worst, "masked", (json_int_t)p->masked, "mask_differs", (json_int_t)p->mask, "nan",
		(json_int_t)p->nan,
		"infinite", (json_int_t)p->inf, "common", (json_int_t)p->common, "top_reference", json_ranked(p->top_reference, p->n_top),
		"top_got", json_ranked(p->top_got, p->n_top));

	if (r->has_sigma) json_object_set_new(j, "sigma", json_figure(p->sigma));
	if (r->has_ids)
		json_object_update_new(j, json_pack("{s:o,s:o}", "nll_reference", json_figure(p->nll_reference), "nll_got",
			json_figure(p->nll_got)));
	if (r->has_emulation)
		json_object_update_new(j, json_pack("{s:o,s:o}", "rms_left", json_figure(p->rms_left), "kl_left",
			json_figure(p->kl_left)));
	if (p->flip != NO_FLIP)
		json_object_set_new(j, "flip", json_pack("{s:s,s:o,s:o,s:o,s:I,s:I}", "why", flip_name[p->flip],
			"margin_reference", json_figure(p->margin_reference), "margin_got", json_figure(p->margin_got),
			"noise", json_figure(p->noise), "rank_reference", (json_int_t)p->rank_reference, "rank_got", (json_int_t)p->rank_got));
	return j;
}

static json_t *json_rules(const struct logit_report *r)
{
	json_t *j = json_object();

	for (int i = 0; i < LOGIT_RULES; i++)
		json_object_set_new(j, logit_rule_name[i], json_pack("{s:o,s:o}", "value", json_figure(r->rule[i].value),
			"limit", json_figure(r->rule[i].limit)));
	return j;
}

static json_t *json_overall(const struct logit_report *r)
{
	json_t *flip = json_object(), *histogram = json_array();

	for (int i = FLIP_TIE; i < FLIPS; i++) json_object_set_new(flip, flip_name[i], json_integer((json_int_t)r->flips[i]));
	for (size_t i = 0; i < LOGIT_BINS; i++)
		if (r->histogram[i])
			json_array_append_new(histogram, json_pack("{s:o,s:I}", "from", json_figure(logit_bin_from(i)), "count",
				(json_int_t)r->histogram[i]));
	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:I,s:I,s:I,s:o,s:o,s:I,s:o}", "rms", json_figure(r->rms_all),
		"max", json_figure(r->max_all), "kl", json_spread(&r->kl), "kl_back", json_spread(&r->kl_back), "rms_of_positions",
		json_spread(&r->rms),
		"max_of_positions", json_spread(&r->max), "flips", flip, "top1_agree", (json_int_t)r->agree, "masked", (json_int_t)r->masked,
		"top", (json_int_t)r->top, "common", json_figure(r->common), "histogram", histogram, "bad_positions", (json_int_t)r->bad,
		"same_set", json_figure((double)r->same_set / (double)r->positions));
}

json_t *logits_json(const struct logit_report *r, const struct logit_comparison *c, const struct logit_causes *causes)
{
	json_t *positions = json_array(), *reasons = json_array(), *all = json_overall(r);

	for (size_t t = 0; t < r->positions; t++) json_array_append_new(positions, json_position(r, t));
	for (int i = 0; i < r->n_reason; i++) json_array_append_new(reasons, json_string(r->reason[i]));
	if (r->has_sigma) {
		json_object_set_new(all, "in_sigma", json_spread(&r->in_sigma));
		json_object_set_new(all, "rules", json_rules(r));
	}
	if (r->truth)
		json_object_set_new(all, "truth", json_pack("{s:s,s:s,s:I,s:o}", "arithmetic", r->truth, "checked_with", r->truth_by, "tokens",
			(json_int_t)r->truth_tokens, "error_in_sigma", json_figure(r->truth_error)));
	if (r->has_emulation) json_object_set_new(all, "explained", json_figure(r->explained));
	if (r->has_ids)
		json_object_set_new(all, "perplexity", json_pack("{s:I,s:o,s:o,s:o,s:o}", "tokens", (json_int_t)r->targets,
			"reference", json_figure(exp(r->nll_reference)), "got", json_figure(exp(r->nll_got)),
			"nll_difference", json_figure(r->nll_difference), "standard_error", json_figure(r->nll_error)));
	return json_pack("{s:s,s:s,s:s,s:s?,s:I,s:I,s:o,s:o,s:o,s:o}", "outcome", outcome_name[r->outcome], "got", c->got->name,
		"reference", c->reference->name, "under", c->under, "positions", (json_int_t)r->positions, "vocabulary",
		(json_int_t)r->vocabulary,
		"reasons", reasons, "all", all, "position", positions,
		"causes", causes ? causes_json(causes) : json_null());
}
