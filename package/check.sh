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
# The same with the archive alone, by what the .pc file says of it, as `pkg-config --static` gives it.
mkdir "$to/lib" && cp "$1/lib/libetalon.a" "$to/lib/"
private=$(sed -n 's|^Libs.private: ||p' "$PKG_CONFIG_PATH/etalon.pc")
# shellcheck disable=SC2086
${CC:-cc} -Wall -Wextra -Werror -I"$1/include" -o "$to/s" "$to/p.c" -L"$to/lib" -letalon $private
"$to/s" >"$to/got" || true
diff -u "$to/expected" "$to/got"
if command -v pkg-config >/dev/null; then
	said=$(pkg-config --static --libs etalon)
	for l in -letalon $private; do
		case " $said " in *" $l "*) ;; *) echo "check-install: pkg-config --static lacks $l" >&2; exit 1 ;; esac
	done
fi
n=$(nm -D --defined-only "$1/lib/libetalon.so" | grep -cv ' etalon_' || true)
[ "$n" = 0 ] || { echo "check-install: libetalon.so shows $n names that are not its own" >&2; exit 1; }
"$1/bin/etalon" --version
