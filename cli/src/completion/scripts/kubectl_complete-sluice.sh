#!/bin/sh
# Save it as an executable file kubectl_complete-sluice on the PATH: the completion of kubectl runs it for kubectl sluice.
exec kubectl-sluice __complete "$@"
