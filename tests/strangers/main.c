/* make strangers. usage:
 *   strangers [-s] [-q] [-t TABLE.tsv] [PART]      PART: right, faults, OP, OP-faults, OP/N, OP-faults/N
 *   strangers -w FILE OP/N or OP-faults/N: writes that point's capture, to be given to etalon check
 *   strangers -k [FOLDER]: the known kernels' points against captures of them, in fixtures/captures if no other
 * -s: a small version; -q: the self-test alone. Exit: 0 all as it must be, 1 not, 2 bad usage. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compare/verdict/verdict.h"
#include "strangers.h"

enum { MAX_UNIT = 512, SMALL_FAULTS = 6 };
static const char captures[] = "fixtures/captures";

static bool wanted(const struct unit *u, const char *part)
{
	char name[64];
	size_t n = part ? strlen(part) : 0;

	if (!part) return true;
	if (!strcmp(part, "right") || !strcmp(part, "faults")) return (part[0] == 'f') == (u->point.fault > 0);
	unit_name(u, name, sizeof name);
	return !strncmp(name, part, n) && (!name[n] || name[n] == '/');
}

/* What a judgement costs, roughly: element operations of the states. */
static double cost(const struct unit *u)
{
	const struct made *m = &u->point.made;

	return (double)made_size(m, "T") * (double)made_size(m, "Hv") * (double)made_size(m, "Dk") * (double)made_size(m, "Dv");
}

static const double cheap = 7.5e4;

/* Of n units from `first` on, `most` of the cheap ones, evenly; returns how many stay. */
static int thin(struct unit *first, int n, int most)
{
	int eligible = 0, kept = 0, seen = 0;

	for (int i = 0; i < n; i++) eligible += cost(&first[i]) <= cheap;
	for (int i = 0; i < n; i++) {
		if (cost(&first[i]) > cheap) continue;
		if (eligible <= most || seen == 0 || seen * most / eligible != (seen - 1) * most / eligible)
			first[kept++] = first[i];
		seen++;
	}
	return kept;
}

static int all_units(struct unit *unit, bool small, const char *part)
{
	int n = 0, first;

	for (const struct family *const *f = families; *f; f++) {
		first = n;
		for (int i = 1; point_right(&unit[n].point, *f, i); i++) n++;
		if (small) n = first + thin(unit + first, n - first, (*f)->small);
	}
	first = n;
	for (const struct family *const *f = families; *f; f++)
		for (int i = 1; point_wrong(&unit[n].point, *f, i); i++) n++;
	if (small) n = first + thin(unit + first, n - first, SMALL_FAULTS);
	int kept = 0;
	for (int i = 0; i < n; i++)
		if (wanted(&unit[i], part)) unit[kept++] = unit[i];
	return kept;
}

static bool each(struct unit *unit, int n, const char *what, bool (*make)(struct unit *, struct error *))
{
	bool ok = true, shown = isatty(2);
	int done = 0;

	#pragma omp parallel for schedule(dynamic, 1)
	for (int i = 0; i < n; i++) {
		struct error e;
		char name[64];
		bool good = make(&unit[i], &e);
		unit_name(&unit[i], name, sizeof name);
		#pragma omp critical
		{
			ok = ok && good;
			if (!good) fprintf(stderr, "%s: ", name), error_print(stderr, &e), putc('\n', stderr);
			if (shown) fprintf(stderr, "\r%s: %d of %d: %s\033[K", what, ++done, n, name);
		}
	}
	if (shown) fputs("\r\033[K", stderr);
	return ok;
}

/* Every structure drawn, without its roundings, keeps the rules of float32. */
static int self_test(struct unit *unit, int n)
{
	int wrong = 0;

	if (!each(unit, n, "self-test", unit_test)) return EXIT_MACHINE;
	for (int i = 0; i < n; i++) {
		char name[64], text[1024] = "";
		if (!*unit[i].wrong) continue;
		unit_name(&unit[i], name, sizeof name);
		unit[i].point.family->say(&unit[i].point, text, sizeof text);
		fprintf(stderr, "strangers: %s is no correct kernel: without roundings %s\n\t(%s)\n", name, unit[i].wrong, text);
		wrong++;
	}
	return wrong ? EXIT_FAIL : EXIT_PASS;
}

static int write_point(struct unit *unit, int n, const char *path)
{
	struct capture c;
	struct error e;
	char text[1024] = "";

	if (n != 1) {
		fputs("strangers: -w takes one point, OP/N or OP-faults/N\n", stderr);
		return EXIT_INPUT;
	}
	bool made = point_capture(&unit->point, &c, &e), ok = made && tensors_write(&c.tensors, path, &e);
	if (made) capture_free(&c);
	if (!ok) error_print(stderr, &e), putc('\n', stderr);
	unit->point.family->say(&unit->point, text, sizeof text);
	say(text, sizeof text, "\n");
	made_say(&unit->point.made, text, sizeof text);
	puts(text);
	return ok ? EXIT_PASS : error_exit(&e);
}

/* Of the correct kernels at most one in so many may be undecided. */
enum { MOST_UNDECIDED = 50 };

int main(int argc, char **argv)
{
	static struct unit unit[MAX_UNIT];
	static struct recorded list[MAX_RECORDED];
	const char *table = NULL, *path = NULL;
	struct error e;
	bool small = false, known = false, test_only = false;
	int c, recordings;

	while ((c = getopt(argc, argv, "sqkt:w:")) != -1) {
		if (c == 's') small = true;
		else if (c == 'q') test_only = true;
		else if (c == 'k') known = true;
		else if (c == 't') table = optarg;
		else if (c == 'w') path = optarg;
		else return EXIT_INPUT;
	}
	const char *part = optind < argc ? argv[optind] : NULL;
	int n = known ? 0 : all_units(unit, small, part);
	if (path) return write_point(unit, n, path);
	double start = omp_get_wtime();
	if (!known_kernels(known && part ? part : captures, list, &recordings, &e)) {
		error_print(stderr, &e), putc('\n', stderr);
		return error_exit(&e);
	}
	if (known) print_known(list, recordings);
	if (known) return known_well(list, recordings) ? EXIT_PASS : EXIT_FAIL;
	int status = self_test(unit, n);
	if (status || test_only) return status;
	if (!each(unit, n, "judged", unit_judge)) return EXIT_MACHINE;
	if (table && !write_table(table, unit, n)) return EXIT_INPUT;
	print_head();
	print_known(list, recordings);
	print_page(unit, n, omp_get_wtime() - start);
	int correct = 0, undecided = 0;
	for (int i = 0; i < n; i++) {
		if (!unit_good(&unit[i])) return EXIT_FAIL;
		correct += !unit[i].point.fault;
		undecided += !unit[i].point.fault && unit[i].right.outcome == UNDECIDED;
	}
	if (undecided * MOST_UNDECIDED > correct) return EXIT_FAIL;
	return known_well(list, recordings) ? EXIT_PASS : EXIT_FAIL;
}
