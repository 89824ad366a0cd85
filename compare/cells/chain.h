/* Inside lower_product.c: a chain of matrices with factors, and the tree by which it is multiplied. */
#ifndef ETALON_CELLS_CHAIN_H
#define ETALON_CELLS_CHAIN_H

#include "lower.h"

enum { MAX_DENSE = 5, MAX_TREES = 14, MAX_TREE = 2 * MAX_DENSE };

/* A way to multiply: nodes first..last of the dense factors; leaves have left < 0. The last node is all of it. */
struct way { int n; struct { int first, last, left, right; } node[MAX_TREE]; };

/* Where a factor may stand: on the rows or the columns of a node; inside: of the leaf's own product. */
struct place { int node; bool columns, inside; };
struct factor { struct entry e; int gap; struct place place; };
struct chain { int about; struct way t; struct entry dense[MAX_DENSE]; int n_dense, n_factor; struct factor factor[MAX_FACTORS]; };

/* What is rounded at a leaf: with a factor on it another value than the leaf's own, and perhaps one that the op has a name for. */
struct sym low_leaf_named(const struct lowering_run *l, const struct chain *c, int n);
/* A product that has a name may be stored under it, and read in another type by the kernel that multiplies it by a factor. */
struct val low_unscaled(struct lowering_run *l, const struct chain *c, int n, struct val v);

#endif
