# Completes kubectl-sluice in fish. Source it: kubectl sluice completion fish | source
function __kubectl_sluice_complete
    set -l typed (commandline -opc)
    set -l current (commandline -ct)
    set -l found (kubectl-sluice __complete $typed[2..-1] "$current" 2>/dev/null)
    test (count $found) -gt 0; or return
    set -l directive (string replace ':' '' -- $found[-1])
    set -e found[-1]
    if test (count $found) -eq 0
        test (math "bitand($directive, 4)") -eq 0; and __fish_complete_path "$current"
        return
    end
    # A value that is written behind its option.
    set -l option (string match -r -- '^--[^=]+=' "$current")
    for line in $found
        printf '%s\n' "$option$line"
    end
end
complete -c kubectl-sluice -e
complete -c kubectl-sluice -f -a '(__kubectl_sluice_complete)'
