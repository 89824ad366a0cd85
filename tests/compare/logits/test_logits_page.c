/* The page of etalon logits: in itself, and in a browser where there is one. */
#define _GNU_SOURCE     /* memfd_create */
#include <string.h>

#include "tests/program.h"

#define CAPTURE "fixtures/models/qwen3_5_dense_tiny/capture.safetensors"

static const char *browser(void)
{
	static const char *const names[] = { "chromium", "chromium-browser", "google-chrome" };

	for (size_t i = 0; i < 3; i++) {
		char line[128];
		snprintf(line, sizeof line, "command -v %s >/dev/null", names[i]);
		if (system(line) == 0) return names[i];
	}
	return NULL;
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	for (; (text = strstr(text, what)); text++) n++;
	return n;
}

static char *written_page(const char *path)
{
	size_t n;

	expect(EXIT_FAIL, "logits", "--ref", CAPTURE ":cpu_f64.logits", "--got", CAPTURE ":gpu_bf16.logits", "--noise",
		CAPTURE ":gpu_f32.logits", "--html",
		path);
	char *text = (char *)file_bytes(path, &n);
	text = realloc(text, n + 1);
	text[n] = 0;
	return text;
}

static void page_stands_alone(void **state)
{
	char *page = written_page(scratch("page.html"));

	(void)state;
	assert_int_equal(count(page, "<svg"), 3);
	assert_int_equal(count(page, "</svg>"), 3);
	assert_int_equal(count(page, "<script") + count(page, "<link") + count(page, "src=") + count(page, "@import") + count(page,
		"url(h"), 0);
	for (const char *at = page; (at = strstr(at, "http")); at++)    /* names of namespaces only */
		assert_int_equal(strncmp(at, "http://www.w3.org/", 18), 0);
	free(page);
	assert_true(count(out, "\nFAIL under the noise of capture.safetensors:gpu_f32.logits: ") == 1);
	expect(EXIT_INPUT, "logits", "--ref", CAPTURE ":cpu_f64.logits", "--got", CAPTURE ":cpu_f64.logits", "--html",
		scratch("absent/page.html"));
	char *path = strdup(getenv("PATH"));
	setenv("PATH", scratch("no_programs"), 1);
	expect(EXIT_MACHINE, "logits", "--ref", CAPTURE ":cpu_f64.logits", "--got", CAPTURE ":cpu_f64.logits", "--html",
		scratch("never.html"));
	setenv("PATH", path, 1);
	assert_true(strstr(err, "gnuplot") && access(scratch("never.html"), F_OK));
	free(path);
	expect(EXIT_PASS, "logits", "--ref", CAPTURE ":cpu_f64.logits", "--got", CAPTURE ":cpu_f64.logits", "--html",
		scratch("equal.html"));
}

/* What a browser makes of it: the verdict is the title and the first thing on the page. */
static void page_loads_in_a_browser(void **state)
{
	const char *name = browser();
	char path[512], line[2048], verdict[512], *dom = NULL;
	size_t n = 0;

	(void)state;
	if (!name) {
		print_message("no Chromium here: the page was not loaded\n");
		skip();
	}
	snprintf(path, sizeof path, "%s", scratch("loaded.html"));
	free(written_page(path));
	char *from = strstr(out, "\nFAIL under") + 1, *end = strchr(from, '\n');
	snprintf(verdict, sizeof verdict, "%.*s", (int)(end - from), from);
	snprintf(line, sizeof line, "timeout 60 %s --headless --no-sandbox --disable-gpu --user-data-dir='%s.profile' "
		"--dump-dom 'file://%s' >'%s.dom' 2>/dev/null",
		name, path, path, path);
	assert_int_equal(system(line), 0);
	snprintf(line, sizeof line, "%s.dom", path);
	dom = (char *)file_bytes(line, &n);
	dom = realloc(dom, n + 1);
	dom[n] = 0;
	snprintf(line, sizeof line, "<body>\n<h1 id=\"verdict\" class=\"fail\">%s</h1>", verdict);
	if (!strstr(dom, line)) fail_msg("not loaded: %s", line);
	snprintf(line, sizeof line, "<title>%s</title>", verdict);
	assert_non_null(strstr(dom, line));
	assert_int_equal(count(dom, "<svg"), 3);
	assert_true(count(dom, "<h3>position ") == 8 && count(dom, "<path") > 30);
	free(dom);
	snprintf(line, sizeof line, "rm -rf '%s.profile' '%s.dom'", path, path);
	assert_int_equal(system(line), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(page_stands_alone), cmocka_unit_test(page_loads_in_a_browser) };
	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
