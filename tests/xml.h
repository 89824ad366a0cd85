/* A reader of XML that knows what JUnit needs: elements, attributes, five entities. */
#ifndef ETALON_TEST_XML_H
#define ETALON_TEST_XML_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Valid UTF-8 (RFC 3629) without control characters but newline. */
static inline bool clean_text(const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p;) {
		size_t n = *p < 0x80 ? 1 : *p >= 0xc2 && *p < 0xe0 ? 2 : *p >= 0xe0 && *p < 0xf0 ? 3 : *p >= 0xf0 && *p < 0xf5 ? 4 : 0;
		if (n == 0 || (n == 1 && ((*p < ' ' && *p != '\n') || *p == 127))) return false;
		for (size_t i = 1; i < n; i++)
			if ((p[i] & 0xc0) != 0x80) return false;
		p += n;
	}
	return true;
}

static inline bool xml_text(const char **p, const char *end)
{
	static const char *const entity[] = { "&lt;", "&gt;", "&amp;", "&quot;", "&apos;" };

	for (; !strchr(end, **p); (*p)++) {
		bool known = **p != '&';
		for (size_t i = 0; i < 5; i++) known = known || !strncmp(*p, entity[i], strlen(entity[i]));
		if (!known || **p == '<' || !strncmp(*p, "]]>", 3)) return false;
	}
	return **p != 0;
}

static inline bool xml_name(const char **p, char *name, size_t size)
{
	size_t n = strspn(*p, "abcdefghijklmnopqrstuvwxyz");

	snprintf(name, size, "%.*s", (int)n, *p);
	*p += n;
	return n > 0;
}

static inline bool xml_element(const char **p)
{
	char name[32], other[32];

	if (*(*p)++ != '<' || !xml_name(p, name, sizeof name)) return false;
	while (**p == ' ') {
		++*p;
		if (!xml_name(p, other, sizeof other) || *(*p)++ != '=' || *(*p)++ != '"' || !xml_text(p, "\"") || *(*p)++ != '"') return false;
	}
	if (*(*p)++ != '>') return false;
	for (;;) {
		if (!xml_text(p, "<")) return false;
		if ((*p)[1] == '/') break;
		if (!xml_element(p)) return false;
	}
	*p += 2;
	return xml_name(p, other, sizeof other) && !strcmp(name, other) && *(*p)++ == '>';
}

static inline bool well_formed(const char *text)
{
	static const char head[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
	const char *p = text + strlen(head);

	return !strncmp(text, head, strlen(head)) && clean_text(text) && xml_element(&p) && !strcmp(p, "\n");
}

#endif
