/* Inside the way from a program to symbols. */
#ifndef ETALON_STRUCTURE_SYMBOLS_READ_H
#define ETALON_STRUCTURE_SYMBOLS_READ_H

#include "symbols.h"

/* By register: its value now, how often it is read, the carry that it is in the innermost loop that carries it (-1: none), and whether a
 * loop begins with it. */
struct reader { struct form_symbols *f; struct sym *reg[MAX_REG]; int uses[MAX_REG]; int carry_of[MAX_REG]; bool begins[MAX_REG]; };

bool read_steps(struct reader *r, const struct step *s);
bool read_loop(struct reader *r, const struct step *s);

#endif
