#!/bin/sh
# The C program of a page, compiled against a copy of etalon that is installed below a prefix, and run: what it prints is the page's.
set -e
to=$(mktemp -d); trap 'rm -rf "$to"' EXIT
block() { awk -v fence="$1" '$0 == "```" && on { exit } on { print } $0 == fence { on = 1 }' "$3" >"$2"; }
block '```c' "$to/p.c" "$2"; block '```text' "$to/expected" "$2"
export PKG_CONFIG_PATH="$1/lib/pkgconfig"
flags=$(sed -n "s|^prefix=.*||p; s|^Cflags: ||p; s|^Libs: ||p" "$PKG_CONFIG_PATH/etalon.pc" | sed "s|\${includedir}|$1/include|; s|\${libdir}|$1/lib|" | tr '\n' ' ')
# shellcheck disable=SC2086
${CC:-cc} -Wall -Wextra -Werror -o "$to/p" "$to/p.c" $flags -lm
LD_LIBRARY_PATH="$1/lib" "$to/p" >"$to/got" || true
diff -u "$to/expected" "$to/got"
n=$(nm -D --defined-only "$1/lib/libetalon.so" | grep -cv ' etalon_' || true)
[ "$n" = 0 ] || { echo "check-install: libetalon.so shows $n names that are not its own" >&2; exit 1; }
"$1/bin/etalon" --version
