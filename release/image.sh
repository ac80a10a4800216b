#!/usr/bin/env bash
# Makes the container image: an OCI layout in a tar file, from nothing but binaries of Sluice.
#
#   release/image.sh OUT.tar VERSION ARCH=CONTROLLER,PLUGIN…
#
# There is no base image. Of each architecture the image has both binaries, the loader and the shared libraries that
# they name (none if they are static), and the licence. The controller is what it starts; the plugin is there for the page
# (config/web). No shell, no package manager, nothing that is writable:
# Sluice runs with a read-only root and as any user; the image names 65532.
#
# SOURCE_DATE_EPOCH: the time of everything in the image, in seconds since the epoch.
# REVISION: the commit, for a label. IMAGE_MAX_BYTES: fail if a layer is larger than this, compressed.
# LIBRARIES: a file that gets a line `ARCH/NAME SHA256` for each shared library, for the SBOM.
#
# `skopeo copy oci-archive:OUT.tar docker://…`, `crane`, `ctr images import` and `docker load` read it.
set -euo pipefail
cd "$(dirname "$0")/.."
. release/archive.sh

[ $# -ge 3 ] || fail "usage: release/image.sh OUT.tar VERSION ARCH=CONTROLLER,PLUGIN…"
out=$1 version=$2
shift 2
: "${SOURCE_DATE_EPOCH:?}"
name=ghcr.io/sluice-dev/sluice
source=https://github.com/sluice-dev/sluice
created=$(rfc3339 "$SOURCE_DATE_EPOCH")
user=65532:65532

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
layout=$work/layout
blobs=$layout/blobs/sha256
mkdir -p "$blobs"

# Moves a file to the blobs, and prints its descriptor.
blob() { # media type, file [more fields]
	local digest size
	digest=$(sha256 "$2")
	size=$(stat -c %s "$2")
	mv "$2" "$blobs/$digest"
	printf '{"mediaType":"%s","digest":"sha256:%s","size":%s%s}' "$1" "$digest" "$size" "${3:-}"
}

# The compiler that knows where the libraries of an architecture are.
compiler() { # arch
	local machine triple
	case $1 in
	amd64) machine=x86_64 ;;
	arm64) machine=aarch64 ;;
	*) fail "no architecture $1: amd64 or arm64" ;;
	esac
	triple=$machine-linux-gnu-gcc
	if command -v "$triple" >/dev/null; then
		echo "$triple"
	elif [ "$(uname -m)" = $machine ]; then
		echo cc
	else
		fail "no $triple, which knows the libraries of $1"
	fi
}

# Puts the libraries that a file names into /lib, and what these name.
add_libraries() { # file
	local needed path
	for needed in $(readelf --dynamic "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p'); do
		[ ! -e "$root/lib/$needed" ] || continue
		path=$("$cc" -print-file-name="$needed")
		[ -e "$path" ] || fail "$needed, which $1 names, is not on this machine"
		mkdir -p "$root/lib"
		install -m 0755 "$path" "$root/lib/$needed"
		[ -z "${LIBRARIES:-}" ] || echo "$arch/$needed $(sha256 "$path")" >>"$LIBRARIES"
		add_libraries "$root/lib/$needed"
	done
}

# Puts a program into the root, with the loader and the libraries that it needs.
add_program() { # file, name
	local loader
	[ -x "$1" ] || fail "no program $1"
	install -m 0755 "$1" "$root/$2"
	add_libraries "$1"
	loader=$(readelf --program-headers "$1" | sed -n 's/.*program interpreter: \(.*\)\]$/\1/p')
	case $loader in
	'' | /lib/*) ;;
	# Loaders look for libraries in /lib, or in the folder that they are in.
	/lib64/*) ln -sfn lib "$root/lib64" ;;
	*) fail "$1 has the loader $loader, which is not in /lib or /lib64" ;;
	esac
	[ -z "$loader" ] || [ -e "$root$loader" ] || fail "the loader $loader of $1 was not found"
}

# The image of one architecture. Prints the descriptor of its manifest, and adds to `$work/docker`.
image() { # arch, controller, plugin
	local arch=$1 root=$work/$1 cc diff size layer config
	cc=$(compiler "$arch")
	mkdir -p "$root/licenses"
	install -m 0644 LICENSE "$root/licenses/LICENSE"
	add_program "$2" sluice
	add_program "$3" kubectl-sluice

	archive "$root" >"$work/$arch.tar"
	diff=$(sha256 "$work/$arch.tar")
	gzip -n "$work/$arch.tar"
	size=$(stat -c %s "$work/$arch.tar.gz")
	echo "release: image for $arch: $size bytes, compressed" >&2
	[ "$size" -le "${IMAGE_MAX_BYTES:-$size}" ] || fail "the image for $arch is larger than $IMAGE_MAX_BYTES bytes"
	layer=$(blob application/vnd.oci.image.layer.v1.tar+gzip "$work/$arch.tar.gz")
	printf '{"created":"%s","architecture":"%s","os":"linux","config":{"User":"%s","WorkingDir":"/","Entrypoint":["/sluice"],"Env":["PATH=/"],"ExposedPorts":{"8080/tcp":{},"8081/tcp":{},"9443/tcp":{}},"Labels":{%s}},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[{"created":"%s","created_by":"release/image.sh"}]}' \
		"$created" "$arch" "$user" "$(labels)" "$diff" "$created" >"$work/config"
	config=$(blob application/vnd.oci.image.config.v1+json "$work/config")
	if [ ! -e "$work/docker" ]; then
		# What `docker load` reads without knowing of OCI layouts: one architecture.
		printf '[{"Config":"%s","RepoTags":["%s:%s"],"Layers":["%s"]}]' \
			"$(path_of "$config")" "$name" "$version" "$(path_of "$layer")" >"$work/docker"
	fi
	printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s,"layers":[%s]}' \
		"$config" "$layer" >"$work/manifest"
	blob application/vnd.oci.image.manifest.v1+json "$work/manifest" \
		",\"platform\":{\"architecture\":\"$arch\",\"os\":\"linux\"}"
}

labels() {
	local prefix=org.opencontainers.image
	printf '"%s.title":"sluice","%s.licenses":"Apache-2.0","%s.source":"%s","%s.version":"%s","%s.revision":"%s"' \
		$prefix $prefix $prefix "$source" $prefix "$version" $prefix "${REVISION:-}"
}

# Where the blob of a descriptor is in the layout.
path_of() { # descriptor
	sed 's/.*"digest":"sha256:\([0-9a-f]*\)".*/blobs\/sha256\/\1/' <<<"$1"
}

manifests=
for pair in "$@"; do
	binaries=${pair#*=}
	descriptor=$(image "${pair%%=*}" "${binaries%%,*}" "${binaries#*,}")
	manifests+=${manifests:+,}$descriptor
done
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s]}' "$manifests" \
	>"$work/index"
index=$(blob application/vnd.oci.image.index.v1+json "$work/index" \
	",\"annotations\":{\"io.containerd.image.name\":\"$name:$version\",\"org.opencontainers.image.ref.name\":\"$version\"}")
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s]}' "$index" \
	>"$layout/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
mv "$work/docker" "$layout/manifest.json"
mkdir -p "$(dirname "$out")"
archive "$layout" >"$out"
