/* A report on logits as a page that stands alone. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "logits_causes.h"
#include "logits_pictures.h"
#include "compare/print/print.h"

enum { WORST = 8, SHOWN_TOKENS = 8 };           /* positions side by side, and tokens of each */

static const char *const style =
	"body{font:15px/1.45 system-ui,sans-serif;color:#222;background:#fff;max-width:1040px;margin:1.5em auto;padding:0 1em}"
	"h1{font-size:1.25em;padding:.5em .7em;border-left:.5em solid;overflow-wrap:anywhere}h2{font-size:1.05em;margin:1.6em 0 .4em}"
	".pass{color:#1e7a34;background:#eaf6ec}.fail{color:#a61b1b;background:#fbeaea}.undecided{color:#8a5a00;background:#fdf4e0}"
	"table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
	"td,th{padding:.12em .7em;text-align:right;border-bottom:1px solid #e4e4e4}th{font-weight:600;border-bottom-color:#999}"
	"td:first-child,th:first-child{text-align:left;white-space:nowrap}.note{text-align:left}svg{max-width:100%;height:auto}"
	".wide{overflow-x:auto}.side{display:flex;flex-wrap:wrap;gap:1.2em}.side h3{font-size:.95em;margin:.6em 0 .2em}"
	".off{color:#a61b1b;font-weight:600}li{margin:.15em 0}";

static void escaped(FILE *to, const char *text)
{
	char *clean = strdup(text);

	if (clean) make_clean(clean);
	for (const char *p = clean ? clean : ""; *p; p++) {
		if (*p == '<') fputs("&lt;", to);
		else if (*p == '&') fputs("&amp;", to);
		else putc(*p, to);
	}
	free(clean);
}

static void head(FILE *to, const struct logit_report *r, const struct logit_comparison *c)
{
	char line[512];

	logits_line(r, c, line, sizeof line);
	fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>", to);
	escaped(to, line);
	fprintf(to, "</title>\n<style>%s</style></head><body>\n<h1 id=\"verdict\" class=\"%s\">", style, outcome_name[r->outcome]);
	escaped(to, line);
	fputs("</h1>\n<p>", to);
	escaped(to, c->got->name);
	fputs(" against ", to);
	escaped(to, c->reference->name);
	fprintf(to, ": %zu positions of %zu tokens, %s against %s; error over all %.4g rms, %.4g at most", r->positions, r->vocabulary,
		dtype_info[c->got->type].name, dtype_info[c->reference->type].name, r->rms_all, r->max_all);
	if (r->masked) fprintf(to, "; %zu logits masked in both", r->masked);
	fputs(".</p>\n", to);
	if (r->n_reason > 1) fputs("<ul>\n", to);
	for (int i = 1; i < r->n_reason; i++) {
		fputs("<li>", to);
		escaped(to, r->reason[i]);
		fputs("</li>\n", to);
	}
	if (r->n_reason > 1) fputs("</ul>\n", to);
}

static void spread(FILE *to, const char *name, const struct spread *s)
{
	fprintf(to, "<tr><td>%s</td>", name);
	for (const double *x = &s->mean; x <= &s->max; x++) fprintf(to, "<td>%.4g</td>", *x);
	fprintf(to, "<td>%zu</td></tr>\n", s->at);
}

static void figures(FILE *to, const struct logit_report *r)
{
	fputs("<div class=\"wide\"><table><tr><th>per position</th><th>mean</th><th>50 %</th><th>90 %</th><th>99 %</th><th>99.9 %</th>"
		"<th>max</th><th>at</th></tr>\n", to);
	spread(to, "rms error", &r->rms);
	spread(to, "max error", &r->max);
	if (r->has_sigma) spread(to, "max error in σ", &r->in_sigma);
	spread(to, "KL(reference‖got), nats", &r->kl);
	spread(to, "KL(got‖reference), nats", &r->kl_back);
	fputs("</table></div>\n<ul>\n", to);
	size_t n = r->positions - r->flips[NO_FLIP];
	fprintf(to, "<li>first token: %zu of %zu agree (%.2f %%)", r->agree, r->positions,
		100 * (double)r->agree / (double)r->positions);
	if (n) fprintf(to, "; of %zu flips %zu are ties of the reference", n, r->flips[FLIP_TIE]);
	if (n && r->has_emulation) fprintf(to, ", %zu the emulation's too (rounding)", r->flips[FLIP_EMULATION]);
	if (n && r->has_sigma) fprintf(to, ", %zu within the reference's margin noise (no error), %zu beyond it", r->flips[FLIP_NOISE],
		r->flips[FLIP_BEYOND]);
	fprintf(to, "</li>\n<li>first %zu: %.3f in common, the same set at %.2f %%</li>\n", r->top, r->common,
		100 * (double)r->same_set / (double)r->positions);
	if (r->targets > 0)
		fprintf(to, "<li>perplexity %.6g, reference %.6g; difference of −log p %.3g ± %.2g over %zu tokens</li>\n", exp(r->nll_got),
			exp(r->nll_reference), r->nll_difference, r->nll_error, r->targets);
	if (r->has_emulation) fprintf(to, "<li>the emulation explains %.3f %% of the error</li>\n", 100 * r->explained);
	for (int i = 0; r->has_sigma && i < LOGIT_RULES; i++)
		fprintf(to, "<li>rule %s: %.4g, at most %.4g</li>\n", logit_rule_name[i], r->rule[i].value, r->rule[i].limit);
	fputs("</ul>\n", to);
}

static bool listed(const struct ranked *list, size_t n, size_t token)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].token == token) return true;
	return false;
}

/* Both lists of a position; a token that the other list lacks is marked. */
static void side_by_side(FILE *to, const struct logit_report *r, const struct logit_position *p)
{
	size_t n = p->n_top < SHOWN_TOKENS ? p->n_top : SHOWN_TOKENS;

	fprintf(to, "<div><h3>position %zu, KL %.4g%s</h3><table><tr><th>reference</th><th>logit</th><th>got</th><th>logit</th></tr>\n",
		(size_t)(p - r->position), p->kl, p->flip == NO_FLIP ? "" : p->flip == FLIP_BEYOND || p->flip == FLIP_UNKNOWN ? ", flipped"
		: ", flipped (no error)");
	for (size_t i = 0; i < n; i++) {
		const struct ranked *a = &p->top_reference[i], *b = &p->top_got[i];
		fprintf(to, "<tr><td%s>%zu</td><td>%.6g</td><td%s>%zu</td><td>%.6g</td></tr>\n", listed(p->top_got, p->n_top, a->token) ? ""
			: " class=\"off\"",
			a->token, a->value, listed(p->top_reference, p->n_top, b->token) ? "" : " class=\"off\"", b->token, b->value);
	}
	fputs("</table></div>\n", to);
}

/* A bad position is worse than any number. */
static int worse(const void *a, const void *b)
{
	const struct logit_position *x = *(const struct logit_position *const *)a, *y = *(const struct logit_position *const *)b;
	double u = isnan(x->kl) ? (double)INFINITY : x->kl, v = isnan(y->kl) ? (double)INFINITY : y->kl;

	return u != v ? (u < v) - (u > v) : (x > y) - (x < y);
}

static bool worst(FILE *to, const struct logit_report *r)
{
	const struct logit_position **list = malloc(r->positions * sizeof *list);

	for (size_t t = 0; list && t < r->positions; t++) list[t] = &r->position[t];
	if (!list) return false;
	qsort(list, r->positions, sizeof *list, worse);
	fputs("<h2>The worst positions, their first tokens side by side</h2>\n<div class=\"side\">\n", to);
	for (size_t i = 0; i < r->positions && i < WORST; i++) side_by_side(to, r, list[i]);
	fputs("</div>\n", to);
	free(list);
	return true;
}

bool logits_html(const char *path, const struct logit_report *r, const struct logit_comparison *c,
	const struct logit_causes *causes,
	struct error *e)
{
	struct pictures p;
	char *text = NULL;
	size_t size = 0;

	if (!pictures_draw(&p, r, e)) return false;
	FILE *to = open_memstream(&text, &size);
	bool ok = to != NULL;
	if (ok) {
		head(to, r, c);
		figures(to, r);
		if (causes) causes_html(to, causes);
		fprintf(to, "<h2>Divergence along the positions</h2>\n%s\n<h2>Errors along the positions</h2>\n%s\n", p.kl, p.errors);
		fprintf(to, "<h2>How often each error occurs</h2>\n%s\n", p.histogram);
		ok = worst(to, r);
		fputs("</body></html>\n", to);
		ok = fclose(to) == 0 && ok;
	}
	pictures_free(&p);
	ok = ok ? text_write(path, text, size, e) : error_set(e, E_MEMORY, path, NO_OFFSET, "a page");
	free(text);
	return ok;
}
