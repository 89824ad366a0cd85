#!/bin/sh
# gpu/sources.sh FILE...: one SHA-256 of the FILEs and of all in gpu/ that they include, as the compiler lists it.
# Headers that are not here (CUDA's, the system's) and those of fixtures/, which compute nothing, do not count.
# A file counts by its text and its base name, and an #include by its base name: moving one changes nothing.
set -eu

# "NAME.o: FILE FILE \", folded into lines.
lists=$(for f in "$@"; do ${CXX:-g++} -x c++ -std=c++17 -I. -nostdinc -nostdinc++ -MM -MG "$f" || exit 1; done)
for f in $(printf '%s\n' "$lists" | tr -s ' \\' '\n' | grep '^gpu/' | sort -u); do
	printf '%s  %s\n' "$(sed 's|^\([ \t]*#[ \t]*include[ \t]*"\)[^"]*/|\1|' "$f" | sha256sum | cut -c 1-64)" "${f##*/}"
done | LC_ALL=C sort -u | sha256sum | cut -c 1-64
