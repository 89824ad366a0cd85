/* bench-gpu: the page of all that was measured, rivals beside it, and the goals. */
#include "bench/bench_gpu_page.h"
#include "bench/bench_gpu_words.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

struct rival { double us; std::vector<double> errors; };

static std::vector<measured> rows;
static std::string rivals_are = "python3 cannot import torch, so all rivals are missing";
static std::map<std::pair<std::string, std::string>, std::vector<double>> errors_of;    /* work, kernel */
static std::map<std::pair<std::string, std::string>, rival> rivals_of;                  /* work, rival */

enum { WORKS = sizeof works / sizeof *works, SHOWN = 2 };

static const char *const rival_names[] = { "eager", "compiled", "fla" };

/* "heads" of "heads_4096"; a name that the table has is its own stem. */
static int work_of(const std::string &name)
{
	for (int i = 0; i < WORKS; i++)
		if (name == works[i].name)
			return i;
	for (int i = 0; i < WORKS; i++)
		if (name.rfind(std::string(works[i].name) + "_", 0) == 0 && name.find('_', strlen(works[i].name) + 1) == std::string::npos)
			return i;
	return -1;
}

void note(const measured &m) { rows.push_back(m); }

void note_errors(const std::string &work, const std::string &kernel, const std::vector<double> &errors)
{
	errors_of[{ work, kernel }] = errors;
	if (work.rfind("decode_", 0) == 0)
		errors_of[{ work, "" }] = errors;       /* all ways have the same bits */
}

/* ---- rivals ---- */

static void read_rival(char *line)
{
	std::vector<std::string> part;

	for (char *p = strtok(line, "\t\n"); p; p = strtok(nullptr, "\t\n"))
		part.push_back(p);
	if (part.size() == 2 && part[0] == "about")
		rivals_are = part[1];
	if (part.size() < 3)
		return;
	rival r = { atof(part[2].c_str()), {} };
	for (size_t i = 3; i < part.size(); i++)
		r.errors.push_back(atof(part[i].c_str()));
	rivals_of[{ part[0], part[1] }] = r;
}

void run_rivals(const std::string &folder)
{
	std::string command = "python3 bench/rivals.py '" + folder + "'";
	FILE *from = popen(command.c_str(), "r");
	char line[512];

	while (from && fgets(line, sizeof line, from))
		read_rival(line);
	if (!from || pclose(from) != 0)
		fprintf(stderr, "bench-gpu: %s failed; rivals that it did not reach are missing\n", command.c_str());
}

/* ---- figures ---- */

/* kernel "": the last. */
static const measured *find(const std::string &work, const std::string &kernel)
{
	const measured *found = nullptr;

	for (const measured &m : rows)
		if (m.work == work && (kernel.empty() || m.kernel == kernel))
			found = &m;
	return found;
}

static double us_of(const char *work, const char *kernel)
{
	const measured *m = find(work, kernel);
	return m ? m->us : NAN;
}

static double share_of(const char *work, const char *kernel)
{
	const measured *m = find(work, kernel);
	return m ? 100 * m->needed / m->rate / m->us : NAN;
}

/* Of flash-linear-attention. */
static rival fla_on(const char *work)
{
	auto found = rivals_of.find({ work, "fla" });
	return found == rivals_of.end() ? rival{ NAN, {} } : found->second;
}

static double error_in(const std::vector<double> &list, size_t i) { return i < list.size() ? list[i] : NAN; }

static double own_error(const std::string &work, const std::string &kernel, size_t i)
{
	auto found = errors_of.find({ work, kernel });
	return found == errors_of.end() ? NAN : error_in(found->second, i);
}

static std::string text(const char *format, double x)
{
	char to[64];

	if (std::isnan(x))
		return "missing";
	snprintf(to, sizeof to, format, x);
	return to;
}

static std::string error_text(const std::vector<double> &list)
{
	std::string all;

	for (size_t i = 0; i < list.size() && i < SHOWN; i++)
		all += (i ? ", " : "") + text("%.1e", list[i]);
	return all;
}

/* ---- the table ---- */

static std::string title_of(const std::string &name, int w)
{
	std::string size = name.size() > strlen(works[w].name) ? name.substr(strlen(works[w].name) + 1) : "";
	char to[128];

	snprintf(to, sizeof to, works[w].title, size.c_str());
	return to;
}

static std::string rival_cell(const std::string &work, const char *name)
{
	auto found = rivals_of.find({ work, name });

	if (found == rivals_of.end())
		return "";
	std::string error = std::isnan(found->second.us) ? "" : error_text(found->second.errors);
	return text("%.2f", found->second.us) + (error.empty() ? "" : " (" + error + ")");
}

static void print_row(FILE *to, const measured &m, int w)
{
	std::string stem = works[w].name;
	auto own = errors_of.find({ m.work, m.kernel });

	if (own == errors_of.end())
		own = errors_of.find({ stem, m.kernel });
	if (own == errors_of.end())
		own = errors_of.find({ stem, "" });
	fprintf(to, "| %s | %s | %.2f | %s | %.1f %% | %.2f | %s |", title_of(m.work, w).c_str(), m.kernel.c_str(), m.us,
	        text(m.product ? "%.0f Gflop" : "%.1f MB", m.needed * (m.product ? 1e-9 : 1e-6)).c_str(), 100 * m.needed / m.rate / m.us,
	        m.needed / m.rate, own == errors_of.end() ? "" : error_text(own->second).c_str());
	for (const char *name : rival_names)
		fprintf(to, " %s |", find(m.work, "") == &m ? rival_cell(m.work, name).c_str() : "");
	fputc('\n', to);
}

void print_gains(FILE *to, const std::string &about)
{
	static const char *const shown[] = { "decode_f32_1", "decode_f32_64", "decode_bf16_1", "decode_bf16_64", "prefill", "norm_residual",
		"norm", "norm_fp8", "norm_gated", "rope", "heads_64", "heads_4096", "gated_attention", "gated_expert", "schulz_5120x17408" };

	fprintf(to, "%s, of [one run](performance-gpu.md).\n\n| work | kernel | µs | times as fast as the first |\n|---|---|--:|--:|\n",
	        about.c_str());
	for (const char *name : shown) {
		double first = NAN;

		for (const measured &m : rows) {
			if (m.work != name)
				continue;
			fprintf(to, "| %s | %s | %.2f |", std::isnan(first) ? title_of(m.work, work_of(m.work)).c_str() : "", m.kernel.c_str(), m.us);
			fprintf(to, std::isnan(first) ? " |\n" : " %.2f |\n", first / m.us);
			first = std::isnan(first) ? m.us : first;
		}
	}
}

/* Rivals that have no column. */
static void print_others(FILE *to)
{
	bool any = false;

	for (const auto &[key, r] : rivals_of) {
		bool known = std::find(std::begin(rival_names), std::end(rival_names), key.second) != std::end(rival_names);
		if (known || work_of(key.first) < 0)
			continue;
		if (!any)
			fprintf(to, "\n| other ways of rivals | | µs | error |\n|---|---|--:|--:|\n");
		any = true;
		fprintf(to, "| %s | %s | %s | %s |\n", title_of(key.first, work_of(key.first)).c_str(), key.second.c_str(),
		        text("%.2f", r.us).c_str(), error_text(r.errors).c_str());
	}
}

/* ---- the goals ---- */

struct goal { std::string what, least, reached; bool met; };      /* least "": told beside a goal */

static goal at_least(const char *what, double reached, double least, const char *format)
{
	return { what, "at least " + text(format, least), text(format, reached), reached >= least };
}

static goal at_most(const char *what, double reached, double most, const char *format)
{
	return { what, "at most " + text(format, most), text(format, reached), reached <= most };
}

/* With the rings of q, k and v, x, z and y counted, which have to move as well. */
static goal with_all_bytes(const char *work)
{
	const measured *m = find(work, "");

	return { "that with all bytes that have to move", "", text("%.1f %%", m ? 100 * m->all / m->rate / m->us : NAN), false };
}

static std::vector<goal> goals()
{
	const char *chosen = "", *fast = "prefill_chunk_fast", *precise = "prefill_chunk_precise";
	const rival theirs = fla_on("prefill");
	double fla = theirs.us;
	std::vector<goal> list = {
		at_least("decode, 64 rows, f32 states: of the copy", share_of("decode_f32_64", chosen), 90, "%.1f %%"),
		with_all_bytes("decode_f32_64"),
		at_least("the same with bf16 states, against f32", us_of("decode_f32_64", chosen) / us_of("decode_bf16_64", chosen), 1.8,
		         "%.2f times as fast"),
		at_most("decode, 1 row, everything; flash-linear-attention's bare recurrence", us_of("decode_f32_1", chosen),
		        fla_on("decode_f32_1").us, "%.2f us"),
		at_least("prefill *fast*, against flash-linear-attention", fla / us_of("prefill", fast), 1.25, "%.2f times as fast"),
		at_most("its error of o", own_error("prefill", fast, 0), error_in(theirs.errors, 0), "%.3e"),
		at_most("its error of the state", own_error("prefill", fast, 1), error_in(theirs.errors, 1), "%.3e"),
		at_most("prefill *precise*; flash-linear-attention's", us_of("prefill", precise), fla, "%.1f us"),
		at_most("its error of the state; a tenth of that one's", own_error("prefill", precise, 1),
		        error_in(theirs.errors, 1) / 10, "%.2e"),
		at_least("norm with residual: of the copy", share_of("norm_residual", "rmsnorm_held"), 90, "%.1f %%"),
	};

	for (const measured &m : rows)
		if (m.work.rfind("heads_", 0) == 0 && m.kernel == "five kernels") {
			const measured *one = find(m.work, "");
			list.push_back(at_least(("q/k norm, turn, split, " + m.work.substr(6) + " tokens, against the five kernels").c_str(),
			                        m.us / one->us, 2.5, "%.2f times as fast"));
			list.push_back({ "one as fast as the copy would be", "", text("%.2f times as fast", m.us * one->rate / one->needed), false });
		}
	return list;
}

void print_page(FILE *to, const std::string &about)
{
	fprintf(to, page_head, about.c_str(), rivals_are.c_str());
	for (int w = 0; w < WORKS; w++)
		for (const measured &m : rows)
			if (work_of(m.work) == w)
				print_row(to, m, w);
	fprintf(to, "\nErrors are of:");
	for (int w = 0; w < WORKS; w++)
		if (works[w].errors[0])
			fprintf(to, "%s %s: %s", w ? ";" : "", works[w].name, works[w].errors);
	fprintf(to, ".\n");
	print_others(to);
	fprintf(to, "\n## The goals\n| goal | | reached | |\n|---|--:|--:|---|\n");
	for (const goal &g : goals())
		fprintf(to, "| %s | %s | %s | %s |\n", g.what.c_str(), g.least.c_str(), g.reached.c_str(),
		        g.least.empty() ? "" : g.met ? "met" : "**not met**");
}
