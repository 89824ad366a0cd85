/* How many letters must be changed, put in or left out to make one name of another. */
#include "nearest.h"

#include <stdio.h>

#include "tree.h"

enum { LONGEST = 48 };

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Letters apart; 0 of the same name. */
static size_t apart(const char *a, const char *b, size_t n, size_t m)
{
	size_t row[LONGEST + 1];

	for (size_t j = 0; j <= m; j++) row[j] = j;
	for (size_t i = 0; i < n; i++) {
		size_t before = row[0]++;
		for (size_t j = 0; j < m; j++) {
			size_t change = before + (a[i] != b[j]);
			before = row[j + 1];
			row[j + 1] = least(change, 1 + least(row[j], before));
		}
	}
	return row[m];
}

/* Two letters may be wrong, as where two are swapped, of a name of three or four one: to a shorter one any other is near. */
void nearest_try(struct nearest *n, const char *there)
{
	size_t a = strlen(n->name), b = strlen(there), most = a < 3 ? 0 : a < 5 ? 1 : 2;

	if (a > LONGEST || b > LONGEST || !b) return;
	size_t away = apart(n->name, there, a, b);
	if (away > most || (n->best && away >= n->away)) return;
	n->best = there;
	n->away = away;
}

void nearest_declared(struct nearest *n, const void *list)
{
	for (const struct declared *d = list; d; d = d->next) nearest_try(n, d->name);
}

const char *nearest_said(const struct nearest *n, char text[NEAREST_SAID])
{
	text[0] = 0;
	if (n->best) snprintf(text, NEAREST_SAID, "; did you mean '%s'?", n->best);
	return text;
}
