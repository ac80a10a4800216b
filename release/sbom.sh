#!/usr/bin/env bash
# Writes the bill of materials of a binary to the standard output, as CycloneDX 1.5 in JSON: the crates that are
# compiled into it, by `cargo tree`, with their licences and the digests in Cargo.lock; and the libraries beside it.
#
#   release/sbom.sh PACKAGE VERSION TARGET [LIBRARIES]
#
# LIBRARIES is a file with a line `ARCH/NAME SHA256` for each shared library (see image.sh). SOURCE_DATE_EPOCH: its time.
set -euo pipefail
cd "$(dirname "$0")/.."
. release/archive.sh

[ $# -ge 3 ] || fail "usage: release/sbom.sh PACKAGE VERSION TARGET [LIBRARIES]"
package=$1 version=$2 target=$3 libraries=${4:-/dev/null}
: "${SOURCE_DATE_EPOCH:?}"

# Lines `DEPTH|CRATE vVERSION …|LICENCE`: what a crate depends on follows it, one deeper.
tree=$(${CARGO:-cargo} tree --locked --package "$package" --edges normal --target "$target" --prefix depth \
	--format '|{p}|{l}')

awk -F'|' -v package="$package" -v release="$version" -v time="$(rfc3339 "$SOURCE_DATE_EPOCH")" '
	function text(value) {
		gsub(/\\/, "\\\\", value)
		gsub(/"/, "\\\"", value)
		return "\"" value "\""
	}
	# Cargo.lock: blocks of `key = "value"`.
	FILENAME == "Cargo.lock" {
		split($0, field, "\"")
		if (/^\[\[package\]\]/) name = ""
		else if (/^name = /) name = field[2]
		else if (/^version = /) number = field[2]
		else if (/^checksum = /) checksum[name "@" number] = field[2]
		next
	}
	FILENAME ~ /^\/dev\/fd/ && NF == 3 {
		split($2, crate, " ")
		sub(/^v/, "", crate[2])
		id = crate[1] "@" crate[2]
		licence = $3
		sub(/ \(\*\)$/, "", licence)
		# The older way to write a choice.
		gsub("/", " OR ", licence)
		if (!(id in licences)) {
			order[++count] = id
			licences[id] = licence
		}
		path[$1] = id
		if ($1 > 0) uses[path[$1 - 1], id] = 1
		next
	}
	NF > 0 {
		split($0, field, " ")
		if (!(field[1] in digests)) library[++libraries] = field[1]
		digests[field[1]] = field[2]
	}
	function name_of(library) {
		sub(/^.*\//, "", library)
		return library
	}
	function purl(id) { return "pkg:cargo/" id }
	function component(id,    part, more) {
		split(id, part, "@")
		if (licences[id] != "") more = more ",\"licenses\":[{\"expression\":" text(licences[id]) "}]"
		if (id in checksum) more = more ",\"hashes\":[{\"alg\":\"SHA-256\",\"content\":" text(checksum[id]) "}]"
		return "{\"type\":\"" (id == order[1] ? "application" : "library") "\",\"bom-ref\":" text(purl(id)) \
			",\"name\":" text(part[1]) ",\"version\":" text(id == order[1] ? release : part[2]) \
			",\"purl\":" text(purl(id)) more "}"
	}
	END {
		printf "{\"bomFormat\":\"CycloneDX\",\"specVersion\":\"1.5\",\"version\":1,\"metadata\":{\"timestamp\":%s,\"component\":%s},\n\"components\":[\n", \
			text(time), component(order[1])
		for (i = 2; i <= count; i++) printf "%s%s", (i > 2 ? ",\n" : ""), component(order[i])
		for (i = 1; i <= libraries; i++)
			printf ",\n{\"type\":\"library\",\"bom-ref\":%s,\"name\":%s,\"hashes\":[{\"alg\":\"SHA-256\",\"content\":%s}]}", \
				text("file:" library[i]), text(name_of(library[i])), text(digests[library[i]])
		printf "],\n\"dependencies\":[\n"
		for (i = 1; i <= count; i++) {
			list = ""
			for (j = 1; j <= count; j++)
				if ((order[i], order[j]) in uses) list = list (list == "" ? "" : ",") text(purl(order[j]))
			printf "%s{\"ref\":%s,\"dependsOn\":[%s]}", (i > 1 ? ",\n" : ""), text(purl(order[i])), list
		}
		print "]}"
	}
' Cargo.lock <(printf '%s\n' "$tree") "$libraries"
