#compdef kubectl-sluice
# Completes kubectl-sluice in zsh. Source it, or save it as _kubectl-sluice in a folder of $fpath.
_kubectl-sluice() {
    local line directive=4
    local -a values shown space
    for line in "${(@f)$(kubectl-sluice __complete "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}"; do
        case $line in
            :*) directive=${line#:} ;;
            ?*) values+=("${line%%$'\t'*}"); shown+=("${line/$'\t'/  -- }") ;;
        esac
    done
    if (( ! ${#values} )); then
        (( directive & 4 )) || _files
        return
    fi
    (( directive & 2 )) && space=(-S '')
    [[ $PREFIX == --*=* ]] && compset -P '*='
    compadd -l -d shown "${space[@]}" -a values
}
if [[ $funcstack[1] == _kubectl-sluice ]]; then
    _kubectl-sluice "$@"
else
    compdef _kubectl-sluice kubectl-sluice
fi
