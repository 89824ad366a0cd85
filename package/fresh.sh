#!/bin/sh
# From nothing: each WHAT in an empty Debian 12 root of its own, with nothing there but the tracked files and `make`.
# usage: fresh.sh FOLDER WHAT...   (root; mmdebstrap, or debootstrap)
#   gate   make deps gate               test    make deps test
#   deb    the package that gate's root made, installed where no compiler is
#   wheel  the wheel that gate's root made, in a virtual environment there
# FOLDER keeps the empty root and Debian's packages, so that a second run fetches nothing twice, and what was made.
set -eu
folder=$1; shift
say() { echo "fresh: $*" >&2; }
[ "$(id -u)" = 0 ] || { say "must be root, to change the root; see Containerfile"; exit 2; }
mkdir -p "$folder/archives/partial" "$folder/made"
folder=$(cd "$folder" && pwd)
base=$folder/debian-12.tar

if [ ! -f "$base" ]; then
	if command -v mmdebstrap >/dev/null; then
		mmdebstrap --quiet --format=tar --variant=minbase bookworm "$base.new"     # else NAME.new is a folder
	elif command -v debootstrap >/dev/null; then
		debootstrap --variant=minbase bookworm "$folder/first" >/dev/null
		tar -C "$folder/first" -cf "$base.new" . && rm -rf "$folder/first"
	else
		say "needs mmdebstrap or debootstrap"; exit 2
	fi
	mv "$base.new" "$base"
fi

# in_root COMMAND: in the empty root, whose mounts end with it; an empty cache of packages would be fetched anew
in_root()
{
	rm -rf --one-file-system "$folder/root" && mkdir "$folder/root" && tar -C "$folder/root" -xf "$base"
	cp -L /etc/resolv.conf "$folder/root/etc/"
	mkdir "$folder/root/etalon" "$folder/root/made"
	git ls-files -z | tar --null -cf - -T - | tar -C "$folder/root/etalon" -xf -
	ROOT=$folder/root KEPT=$folder unshare --mount --pid --fork --kill-child sh -ec '
		mount -t proc proc "$ROOT/proc"
		mount --rbind /dev "$ROOT/dev"
		mount --bind "$KEPT/archives" "$ROOT/var/cache/apt/archives"
		mount --bind "$KEPT/made" "$ROOT/made"
		exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
			chroot "$ROOT" sh -ec "$1"' sh "
		echo 'APT::Keep-Downloaded-Packages \"true\";' >/etc/apt/apt.conf.d/keep
		apt-get update -q >/dev/null
		install() { apt-get install -q -y --no-install-recommends \"\$@\" >/tmp/log 2>&1 || { cat /tmp/log; exit 4; }; }
		$1"
	rm -rf --one-file-system "$folder/root"
}

for what; do
	say "$what"
	case $what in
	gate) in_root 'install make; cd /etalon; make deps gate; make deb; make deps wheel; cp build/*.deb build/dist/*.whl /made/' ;;
	test) in_root 'install make; cd /etalon; make deps test' ;;
	deb) in_root 'install /made/*.deb; cd /tmp; etalon --version; etalon check /etalon/fixtures/captures/rmsnorm.gated.128.safetensors' ;;
	wheel) in_root 'install python3-venv; python3 -m venv /venv; /venv/bin/pip install -q --no-index /made/*.whl; cd /tmp
		/venv/bin/etalon check /etalon/fixtures/captures/rmsnorm.gated.128.safetensors
		/venv/bin/python -c "
import etalon
print(repr(etalon.check(\"rmsnorm\", {\"x\": [[3.0, 3.0]], \"weight\": [1.0, 1.0]}, {\"y\": [[1.0, 1.0]]}, eps=0.0, weight_offset=0)))"' ;;
	*) say "no such thing: $what"; exit 2 ;;
	esac
done
