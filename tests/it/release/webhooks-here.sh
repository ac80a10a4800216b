#!/bin/sh
# Of manifests on the standard input, turns the webhooks that are a Service into URLs of this machine: Sluice runs beside
# the API server of the test bed, not in a pod. Helm calls it as a post-renderer.
exec awk -v url="https://127.0.0.1:$1" '
	/^ *service:$/ && before ~ /clientConfig:$/ { indent = index($0, "s"); before = ""; next }
	indent && match($0, /[^ ]/) > indent { if ($1 == "path:") path = $2; next }
	indent { printf "%" (indent - 1) "surl: %s%s\n", "", url, path; indent = 0 }
	{ before = $0; print }'
