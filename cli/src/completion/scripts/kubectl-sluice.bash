# Completes kubectl-sluice in bash. Source it: source <(kubectl sluice completion bash)
_kubectl_sluice() {
    local line=${COMP_LINE:0:COMP_POINT} directive=4
    local -a typed
    read -ra typed <<<"$line"
    [[ $line == *[[:space:]] ]] && typed+=("")
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :*) directive=${line#:} ;;
            *) COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done < <(kubectl-sluice __complete "${typed[@]:1}" 2>/dev/null)
    ((directive & 2)) && compopt -o nospace
    ((directive & 4)) || compopt -o default
    return 0
}
complete -F _kubectl_sluice kubectl-sluice
