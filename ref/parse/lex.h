/* The words of a formula file, each with its place. */
#ifndef ETALON_FORMULA_LEX_H
#define ETALON_FORMULA_LEX_H

#include <stdarg.h>

#include "pool.h"

/* A file may have this many bytes; a line of the grammar (docs/formula.md) ends at WORD_END unless brackets are open or its
 * last word asks for more. */
enum { MAX_FORMULA = 1 << 16 };

/* WORD_OP: text is one of ( ) [ ] + - * / ^ ' , : ; | = ? or == != <= >= < > .. */
enum word_kind { WORD_NAME, WORD_NUMBER, WORD_TEXT, WORD_OP, WORD_END, WORD_STOP };

struct word {
	enum word_kind kind;
	int line, column;       /* from 1 */
	const char *text;       /* of WORD_END: the comment before it, or "" */
	double number;
	bool spaced;            /* white space before it */
	size_t at, n;           /* its bytes in the text */
};

struct words { struct word *word; size_t n; const char *path, *source; };

/* The words of text [n], which end with WORD_STOP; paths and texts are the pool's. */
bool formula_words(struct words *w, struct pool *p, const char *path, const char *text, size_t n, struct error *e);

/* The error of what was expected at "PATH:LINE:COLUMN"; returns false. */
bool formula_error(struct error *e, const char *path, int line, int column, const char *what, ...)
	__attribute__((format(printf, 5, 6)));
bool formula_error_list(struct error *e, const char *path, int line, int column, const char *what, va_list more)
	__attribute__((format(printf, 5, 0)));

#endif
