/* Parts of ops that others are made of. They work on what they are given, in place, pass their own op's sites and make
 * its mistakes; inside another op they run in a scope (op.h) of the op that their group names. */
#ifndef ETALON_PARTS_H
#define ETALON_PARTS_H

#include "op.h"

/* ---- causal_conv1d ---- */
void conv_tap(calc *c, vec y, vec w, vec x);                    /* y <- y + w x, per channel */
void conv_activation(calc *c, vec y, bool silu);                /* y <- silu(y) */

/* ---- gated_delta_rule ---- */
void delta_l2_norm(calc *c, vec x, double l2_eps);              /* x <- x (Σx² + l2_eps)^-½ */
void delta_softplus(calc *c, num x, num dt_bias);               /* x <- softplus(x + dt_bias) */
void delta_rate(calc *c, num g, num A_log);                     /* g <- -exp(A_log) g */
void delta_scale(calc *c, num scale, double given, size_t Dk);  /* scale <- given; where that is NaN, Dk^-½ */
/* One token of one head. S [Dk,Dv]; q, k [Dk]; v, u, o [Dv]; decay = exp(g) or empty, beta scalars. */
void delta_step(calc *c, mat S, vec q, vec k, vec v, num decay, num beta, vec u, vec o);

/* ---- rmsnorm ---- */
void rms_mean_square(calc *c, num m, vec x, size_t D);          /* m <- Σx² / D; D is x's length but for mistakes */
void rms_divide(calc *c, vec x, num m, double eps);             /* x <- x (m + eps)^-½ */
void rms_gate(calc *c, vec g);                                  /* g <- silu(g) */
void rms_weigh(calc *c, vec x, vec w, vec gate);                /* x <- x w gate; an empty gate is 1 */

/* ---- rope ---- */
/* co, si <- cosines and sines of position theta^(-2i/over), i below their length */
void rope_cos_sin(calc *c, vec co, vec si, num position, double theta, double over);
void rope_turn(calc *c, vec y1, vec y2, vec x1, vec x2, vec co, vec si);        /* y1 + i y2 <- (x1 + i x2)(co + i si) */

#endif
