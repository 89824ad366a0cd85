/* Logits of a whole model, position by position, against a reference. See docs/logits.md. */
#ifndef ETALON_LOGITS_H
#define ETALON_LOGITS_H

#include <jansson.h>

#include "fixtures/io/tensor.h"
#include "logit_row.h"
#include "compare/layers/model_reading.h"
#include "compare/verdict/verdict.h"

/* ---- where rows of logits come from ---- */
struct logit_source {
	const char *name;               /* as reports call it */
	size_t positions, vocabulary;
	enum dtype type;
	/* Rows [first, first + n), contiguous, valid until the next call; NULL: *e says why. Called from one thread, first
	 * never falling. */
	const void *(*rows)(struct logit_source *s, size_t first, size_t n, struct error *e);
	const struct tensor *tensor;    /* of those made by source_of_tensor */
	size_t at_once;                 /* rows that it would rather be asked for at a time; 0: any */
};

/* Rows of t, [T,V] or [1,T,V], of any float type, mapped from a file: pages that were read are given back. A vocabulary
 * below 2, no position and other shapes are refused. t and name must outlive *s. */
bool source_of_tensor(struct logit_source *s, const struct tensor *t, const char *name, struct error *e);

/* "FILE:TENSOR", or "FILE" where it has one tensor. The caller frees *file. */
const struct tensor *tensor_at(struct tensors *file, const char *place, struct error *e);

/* Token ids of t, integers [T] or [1,T], each below V; freed by the caller. NULL: *e says why. */
size_t *ids_of_tensor(const struct tensor *t, size_t T, size_t V, struct error *e);

/* ---- what was found ---- */

/* Why two rows have another first token. TIE: the reference's margin is within the rounding of its own type. EMULATION: the
 * emulation has the same one. NOISE: the margin is within the contract's noise. BEYOND: none of these. UNKNOWN: not a tie,
 * and nothing says what the noise is. */
enum flip { NO_FLIP, FLIP_TIE, FLIP_EMULATION, FLIP_NOISE, FLIP_BEYOND, FLIP_UNKNOWN, FLIPS };
extern const char *const flip_name[FLIPS];

/* A position. Numbers that it has no evidence for are NaN. */
struct logit_position {
	double kl, kl_back;             /* KL(reference||got), KL(got||reference), in nats */
	double rms, max, mean;          /* of d = got - reference over the tokens finite in both */
	size_t worst;                   /* token of max */
	double sigma;                   /* expected size of d */
	double nll_reference, nll_got;  /* -log p of the next id */
	double rms_left, kl_left;       /* of got - emulation; KL(emulation||got) */
	size_t masked, common;          /* masked in both; tokens in both lists of the largest */
	enum flip flip;
	double margin_reference, margin_got;    /* of a flip: how far each puts its own first token above the other's */
	double noise;                   /* what the reference's margin may be off by */
	size_t rank_reference, rank_got;        /* of got's first token in the reference; of the reference's in got */
	size_t nan, inf, mask;          /* got's: NaN; infinite, and not masked; masked in one of the two only */
	size_t n_top;
	struct ranked *top_reference, *top_got; /* [n_top] */
};

/* Over the positions; at: where the largest is. */
struct spread { double mean, p50, p90, p99, p999, max; size_t at; };

struct logit_report {
	size_t positions, vocabulary, top;      /* top: tokens kept of each row */
	struct logit_position *position;
	struct ranked *ranked;                  /* private: what positions point into */
	size_t histogram[LOGIT_BINS];              /* of |d|, see logit_bin_from */
	struct spread kl, kl_back, rms, max, in_sigma;  /* in_sigma: max / sigma */
	double rms_all, max_all;                /* of d */
	double explained;                       /* 1 - Σ(got - emulation)² / Σd² */
	size_t masked, bad, agree, same_set, flips[FLIPS];
	double common;                          /* mean */
	size_t targets;                         /* ids with a finite nll in both */
	double nll_reference, nll_got, nll_difference, nll_error;       /* means; difference got - reference and its standard error */
	bool has_sigma, has_emulation, has_ids;
	/* the noise, and the rules that it gives */
	size_t noise_runs;
	double freedom, kl_freedom, row_freedom;        /* of the mean square of all errors, of the mean KL, of one row's mean square */
	struct rule rule[4];                    /* see logit_rule_name */
	/* of a model's reference: its arithmetic, the one that it is checked with on so many first tokens, the rms error in sigma */
	const char *truth, *truth_by;   /* NULL: none was computed */
	size_t truth_tokens;
	double truth_error;
	enum outcome outcome;
	int n_reason;
	char reason[MAX_REASON][256];
};
/* RMS: of the errors in sigma. ROW: the same of the worst position; no limit from a single noisy run, which does not tell by how
 * much a position's error scatters. SPIKE: the largest error against the rms of its own position, or sigma where that is more.
 * KL: mean KL(reference||got) against the noise's. */
enum { LOGIT_RMS, LOGIT_ROW, LOGIT_SPIKE, LOGIT_KL, LOGIT_RULES };
extern const char *const logit_rule_name[LOGIT_RULES];

enum { MAX_NOISE = 16 };
struct logit_comparison {
	struct logit_source *reference, *got;
	struct logit_source *emulation;           /* may be NULL: the reference rounded where the engine rounds */
	struct logit_source *noise[MAX_NOISE];  /* correct answers under the contract: their distance from the reference is sigma */
	size_t n_noise;
	const char *under;                      /* "contract bf16": what the noise stands for; NULL where there is none */
	const size_t *ids;                      /* [positions] or NULL */
	size_t top;                             /* 1 to LOGIT_TOP */
	const struct watch *watch;              /* compare/layers/model_reading.h's; may be NULL */
};

/* Streams all rows once; memory is that of a block of rows. All sources have one shape; a reference that holds a NaN or
 * +inf, or a row without a number, is an error. On failure *r is zero. The caller frees with logits_free. */
bool logits_compare(struct logit_report *r, const struct logit_comparison *c, struct error *e);
void logits_free(struct logit_report *r);

/* Private to logits.c and logits_verdict.c. noise_squares, noise_kl: [n_noise][positions], mean squares of noise - reference
 * and KL; noise_max: largest |noise - reference|. */
struct noise_figures { double *squares, *kl, *max; };
bool logits_summarise(struct logit_report *r, const struct logit_comparison *c, const struct noise_figures *n, struct error *e);

/* Notes how good the reference is, rms being its error; one that is no small part of the smallest sigma decides nothing. */
void logits_truth(struct logit_report *r, const char *truth, const char *by, size_t tokens, double rms);

/* Makes the outcome worse, and says why. */
void logits_reason(struct logit_report *r, enum outcome outcome, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- reports; causes may be NULL ---- */
struct logit_causes;            /* logits_causes.h */
int logits_text(const struct logit_report *r, const struct logit_comparison *c, const struct logit_causes *causes); /* an exit code */
json_t *logits_json(const struct logit_report *r, const struct logit_comparison *c, const struct logit_causes *causes);
/* A page that stands alone. Pictures by gnuplot; where there is none, E_NO_BACKEND. */
bool logits_html(const char *path, const struct logit_report *r, const struct logit_comparison *c,
	const struct logit_causes *causes, struct error *e);
/* "FAIL under contract f32: 3 of 80 positions ...": the verdict in a line. */
const char *logits_line(const struct logit_report *r, const struct logit_comparison *c, char *text, size_t size);

#endif
