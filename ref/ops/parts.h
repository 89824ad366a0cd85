/* Parts of ops that others are made of. They work on what they are given, in place, pass their own op's sites and make
 * its faults; inside another op they run in a scope (op.h) of the op that their group names. */
#ifndef ETALON_PARTS_H
#define ETALON_PARTS_H

#include "ref/call/op.h"

/* ---- causal_conv1d ---- */
size_t conv_tap_of(const calc *c, size_t W, size_t i);          /* which tap meets the i-th oldest of the last W inputs: i */
size_t conv_ahead(const calc *c);                               /* tokens of look-ahead: 0 */
void conv_tap(calc *c, vec y, vec w, vec x);                    /* y <- y + w x, per channel */
void conv_activation(calc *c, vec y, bool silu);                /* y <- silu(y) */

/* ---- gated_delta_rule ---- */
size_t delta_key_head(const calc *c, size_t h, size_t Hv, size_t Hk);   /* that value head h reads: h / (Hv/Hk) */
size_t delta_bias_of(const calc *c, size_t h);                  /* whose dt_bias value head h has: h */
void delta_key(calc *c, vec x, bool is_q, double l2_eps);       /* x <- its norm, of a q or a k */
void delta_log_decay(calc *c, num g);                           /* g, as the recurrence takes it */
void delta_squash(calc *c, num b);                              /* b <- sigmoid(b) */
void delta_beta(calc *c, num beta);                             /* beta, as the recurrence takes it */
void delta_skip(calc *c, size_t t, size_t first, size_t last, num g, num beta);  /* of token t in [first, last): nothing */
num delta_l2_norm(calc *c, vec x, double l2_eps);               /* x <- x (Σx² + l2_eps)^-½; that factor */
void delta_softplus(calc *c, num x, num dt_bias);               /* x <- softplus(x + dt_bias) */
void delta_rate(calc *c, num g, num A_log);                     /* g <- -exp(A_log) g */
void delta_scale(calc *c, num scale, double given, size_t Dk);  /* scale <- given; where that is NaN, Dk^-½ */
/* One token of one head. S [Dk,Dv]; q, k [Dk]; v, u, o [Dv]; decay = exp(g) or empty, beta scalars. */
void delta_step(calc *c, mat S, vec q, vec k, vec v, num decay, num beta, vec u, vec o);

/* ---- rmsnorm ---- */
/* A whole norm is begin, divide, end. begin: gate <- silu(gate), m <- mean x²; end: x <- x (offset + w) gate. */
void rms_begin(calc *c, num m, vec x, vec gate);
void rms_end(calc *c, vec x, vec w, double offset, vec gate);
void rms_mean_square(calc *c, num m, vec x, size_t D);          /* m <- Σx² / D; D is x's length but for faults */
void rms_divide(calc *c, vec x, num m, double eps);             /* x <- x (m + eps)^-½ */
void rms_gate(calc *c, vec g);                                  /* g <- silu(g) */
void rms_weigh(calc *c, vec x, vec w, vec gate);                /* x <- x w gate; an empty gate is 1 */

/* ---- rope ---- */
/* How pairs are laid out in a row of D: x1_i = row[first + i step], x2_i = row[first + apart + i step], i < n. */
struct rope_pairs { size_t n, first, apart, step; };
struct rope_pairs rope_pairs(const calc *c, size_t D, size_t rotary, bool interleaved);
/* co, si [n] <- of the angles at a position. */
void rope_cos_sin(calc *c, vec co, vec si, num position, size_t D, size_t rotary, double theta);
void rope_turn(calc *c, vec y1, vec y2, vec x1, vec x2, vec co, vec si);        /* y1 <- x1 co - x2 si, y2 <- x2 co + x1 si */

#endif
