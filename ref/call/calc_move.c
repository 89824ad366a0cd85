/* Elements of a matrix in other places: nothing is computed. */
#include <string.h>

#include "ref/arith/calc_private.h"
#include "calc.h"

enum { TILE = 32 };

/* A vector's bytes: those of its elements, and, where they lie apart, those of their low parts. */
struct bytes { char *high, *low; };

static struct bytes bytes_of(const calc *c, void *x) { return (struct bytes){ x, c->arith->split ? calc_low(c, x) : NULL }; }

/* Numbers of rows and columns of a tile. */
struct tile { size_t i, j, rows, cols; };

static struct tile tile_at(size_t i, size_t j, size_t rows, size_t cols)
{
	return (struct tile){ i, j, rows - i < TILE ? rows - i : TILE, cols - j < TILE ? cols - j : TILE };
}

/* y [.., y_row] at (i, j) <- x [.., x_row] at (j, i), for a tile; above: only where j > i. */
static void flip(char *y, size_t y_row, const char *x, size_t x_row, struct tile t, bool above, size_t element)
{
	for (size_t i = t.i; i < t.i + t.rows; i++)
		for (size_t j = above && t.j <= i ? i + 1 : t.j; j < t.j + t.cols; j++)
			memcpy(y + (i * y_row + j) * element, x + (j * x_row + i) * element, element);
}

void c_transpose(calc *c, mat Y, mat X)
{
	struct bytes y = bytes_of(c, Y.at), x = bytes_of(c, X.at);

	c->work += Y.rows * Y.cols;
	for (size_t i = 0; i < Y.rows; i += TILE)
		for (size_t j = 0; j < Y.cols; j += TILE) {
			struct tile t = tile_at(i, j, Y.rows, Y.cols);
			flip(y.high, Y.cols, x.high, X.cols, t, false, c->element);
			if (y.low) flip(y.low, Y.cols, x.low, X.cols, t, false, c->element);
		}
	if (c->arith->moved) c->arith->moved(c, Y.at, Y.rows * Y.cols);
}

void c_mirror(calc *c, mat A)
{
	struct bytes a = bytes_of(c, A.at);

	c->work += A.rows * A.cols / 2;
	for (size_t i = 0; i < A.rows; i += TILE)
		for (size_t j = i; j < A.cols; j += TILE) {
			struct tile t = tile_at(i, j, A.rows, A.cols);
			flip(a.high, A.cols, a.high, A.cols, t, true, c->element);
			if (a.low) flip(a.low, A.cols, a.low, A.cols, t, true, c->element);
		}
	if (c->arith->moved) c->arith->moved(c, A.at, A.rows * A.cols);
}
