#!/bin/sh
# The control file of a Debian package: VERSION, and the root of what it installs, whose libraries say what it depends on.
set -e
needs=$(objdump -p "$2/usr/bin/etalon" "$2"/usr/lib/libetalon.so.* | awk '$1 == "NEEDED" { print $2 }' | sort -u | while read -r lib; do
	file=$(ldconfig -p | awk -v l="$lib" '$1 == l { print $NF; exit }')
	dpkg -S "$(readlink -f "$file")" "$file" 2>/dev/null | sed 's/[:,].*//' | head -1
done | sort -u | grep -v '^$' | paste -sd, | sed 's/,/, /g')
cat <<END
Package: etalon
Version: $1
Architecture: $(dpkg --print-architecture)
Maintainer: the etalon developers <etalon@localhost>
Depends: $needs
Section: devel
Priority: optional
Description: numerical reference and verification of GPU kernels
 Tells whether a GPU kernel computes what it should, how far off it is, and
 which fault explains the error.
END
