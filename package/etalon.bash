# Completion of etalon's commands and options, as their --help has them, and of file names.
_etalon()
{
	local word=${COMP_WORDS[COMP_CWORD]}

	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W "$(etalon --help | sed -n 's/^  \([a-z]*\) .*/\1/p') --help --version" -- "$word")
	elif [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(etalon "${COMP_WORDS[1]}" --help | grep -o -e '--[a-z-]*' | sort -u)" -- "$word")
	elif [ "$COMP_CWORD" = 2 ] && [[ ${COMP_WORDS[1]} == @(record|inputs) ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(etalon list ops | sed '1d; s/ .*//')" -- "$word")
	elif [ "${COMP_WORDS[COMP_CWORD-1]}" = --case ]; then
		mapfile -t COMPREPLY < <(compgen -W "$(etalon list cases "${COMP_WORDS[2]}" 2>/dev/null | awk 'NR > 1 { print $2 }')" -- "$word")
	fi
}
complete -o default -F _etalon etalon
