#!/bin/sh
# What action.yml does: finds etalon, and judges. Exits as `etalon gate` does.
# Environment: GITHUB_ACTION_PATH, this repository; RUNNER_TEMP; GITHUB_STEP_SUMMARY; RELEASE, a
# page or folder with the release's wheels; CAPTURES, paths with spaces between them; BASELINE and
# CONTRACT, or empty; JUNIT.
set -u
here=$GITHUB_ACTION_PATH
environment=$RUNNER_TEMP/etalon-action
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$here/python/etalon/__init__.py")

# The release's wheel, if there is one for this machine.
wheel()
{
	python3 -m venv "$environment" && "$environment/bin/pip" install --quiet --no-index --no-deps \
		--find-links "$RELEASE" "etalon==$version"
}

# The paths: patterns in them are expanded.
set -- $CAPTURES
[ $# -gt 0 ] || { echo "etalon: captures: expected paths, got none" >&2; exit 2; }

echo "::group::etalon $version"
if wheel; then
	program=$environment/bin/etalon
else
	echo "etalon: no wheel of $version for this machine at $RELEASE; it is compiled"
	make -C "$here" NVCC= deps all || { echo "::endgroup::"; exit 4; }
	program=$here/build/etalon
fi
echo "::endgroup::"
exec "$program" gate --markdown="$GITHUB_STEP_SUMMARY" --junit="$JUNIT" \
	${BASELINE:+--baseline="$BASELINE"} ${CONTRACT:+--contract="$CONTRACT"} -- "$@"
