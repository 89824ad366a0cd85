/* What is known of one capture: the record that reports print. */
#ifndef ETALON_FINDING_H
#define ETALON_FINDING_H

#include "compare/verdict/verdict.h"
#include "fixtures/io/sha256.h"

/* What became of one file: a verdict, or the error that prevented it. */
struct finding {
	char path[4096];                /* texts of files are shown as UTF-8 without control characters */
	bool judged, quick;             /* quick: without the x-ray, as asked for */
	char truth[32];                 /* the arithmetic that was asked for, or "" */
	struct error error;             /* where not judged */
	struct verdict verdict;         /* where judged */
	char op[64], producer[128], device[64];         /* "" when the file could not be read */
	char call[SHA256_TEXT];         /* of shapes, types and parameters; "" when the file could not be read */
	/* Set by a gate, which owns them, behind finding_judge; else NULL. */
	const char *name, *root; /* the path below the folder that was named, and that folder */
	const char *baseline;           /* the baseline's path, if it fails this capture */
};

/* Judges a capture; path: where it was read from, or "". No text of the finding holds control characters. */
void finding_judge(struct finding *f, const char *path, const struct capture *c, const struct judging *how);
/* The same where it could not be read. */
void finding_unread(struct finding *f, const char *path, const struct error *e);

int finding_exit(const struct finding *f);

/* Of two exit codes the one that a whole should have: machine, then input, fail, undecided, pass. */
int worse_exit(int a, int b);

/* "pass", "fail", "undecided" or "error". */
const char *finding_word(const struct finding *f);

/* The largest error of a rule over the outputs, in sigma. */
double finding_value(const struct finding *f, int rule);

#endif
