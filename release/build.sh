#!/usr/bin/env bash
# Makes everything that a release consists of, into target/release-artifacts. It publishes nothing: docs/releasing.md.
#
#   make release VERSION=v0.1.0
#
# DRY=1: of any commit, with any version and changes that are not committed, to see that it works.
# BINARIES=FOLDER: take `sluice` and `kubectl-sluice` for this machine from there instead of building them.
# OUT=FOLDER: another folder, which is new or empty, or has an earlier release and nothing else: that is replaced.
#
# Another architecture is built if Rust's target and a C compiler for it are installed; if not, this says so. The same
# commit, compilers and libraries give the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
. release/archive.sh

: "${VERSION:?is not set: make release VERSION=v0.1.0}"
to=${OUT:-target/release-artifacts}
cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-target}
# Compressed, for each architecture.
export IMAGE_MAX_BYTES=${IMAGE_MAX_BYTES:-30000000}

[[ $VERSION =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || fail "VERSION=$VERSION must be like v0.1.0"
REVISION=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export REVISION SOURCE_DATE_EPOCH
if [ "${DRY:-}" != 1 ]; then
	[ -z "$(git status --porcelain)" ] || fail "there are changes that are not committed; DRY=1 takes them as they are"
	crate=v$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
	[ "$crate" = "$VERSION" ] || fail "Cargo.toml has the version $crate; docs/releasing.md says where to raise it"
	for folder in default web; do
		shipped=$(sed -n 's/^ *newTag: //p' config/$folder/kustomization.yaml)
		[ "$shipped" = "$VERSION" ] || fail "config/$folder/kustomization.yaml has the tag $shipped instead of $VERSION"
	done
fi

# What is in a folder but for a release, which is what its SHA256SUMS names.
foreign() { # folder, or a link to one
	comm -23 <(find -H "$1" -mindepth 1 -printf '%P\n' | sort) \
		<({ [ ! -f "$1/SHA256SUMS" ] || { echo SHA256SUMS && cut -d' ' -f3- "$1/SHA256SUMS"; }; } | sort)
}
refuse_foreign() {
	local kept
	[ -n "${OUT:-}" ] && [ -e "$OUT" ] || return 0
	[ -d "$OUT" ] || fail "OUT=$OUT is no folder"
	kept=$(foreign "$OUT" | sed -n 1p)
	[ -z "$kept" ] || fail "OUT=$OUT is not empty: $kept is not of an earlier release"
}
refuse_foreign

native=$(rustc -vV | sed -n 's/^host: //p')
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
# Takes the place of what is there when all of it is made.
out=$work/out
mkdir "$out"

# The kubectl of the test bed, so that each machine renders alike.
kubectl=${KUBECTL:-$($cargo run --quiet --locked --bin sluice-testbed -- build --kubectl)}

arch_of() { # target
	case $1 in
	x86_64-*) echo amd64 ;;
	aarch64-*) echo arm64 ;;
	esac
}

# Builds for a target. Prints the folder of the binaries, or nothing if this machine can't.
binaries() { # target
	local linker=${1/-unknown/}-gcc variable
	# Pages of arm64 have 4, 16 or 64 KiB; an allocator built for larger ones runs with smaller ones too.
	case $1 in aarch64-*) export JEMALLOC_SYS_WITH_LG_PAGE=16 ;; esac
	if [ "$1" = "$native" ]; then
		if [ -n "${BINARIES:-}" ]; then
			echo "$BINARIES"
			return
		fi
		$cargo build --release --locked --bin sluice --bin kubectl-sluice >&2
		echo "$target/release"
		return
	fi
	if [ ! -d "$(rustc --print target-libdir --target "$1")" ]; then
		echo "release: $(arch_of "$1") is left out: no Rust for it (rustup target add $1)" >&2
	elif ! command -v "$linker" >/dev/null; then
		echo "release: $(arch_of "$1") is left out: no $linker (Debian: apt-get install gcc-${linker%-linux-gnu-gcc}-linux-gnu)" >&2
	else
		variable=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$1")_LINKER
		env "$variable=$linker" $cargo build --release --locked --target "$1" --bin sluice --bin kubectl-sluice >&2
		echo "$target/$1/release"
	fi
}

images=()
plugins=()
for triple in x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu; do
	built=$(binaries $triple)
	[ -n "$built" ] || continue
	arch=$(arch_of $triple)
	images+=("$arch=$built/sluice,$built/kubectl-sluice")
	mkdir "$work/plugin-$arch"
	cp "$built/kubectl-sluice" LICENSE "$work/plugin-$arch/"
	plugin=$out/kubectl-sluice_${VERSION}_linux_$arch.tar.gz
	archive "$work/plugin-$arch" kubectl-sluice LICENSE | gzip -n >"$plugin"
	plugins+=("$plugin")
done
[ ${#images[@]} -gt 0 ] || fail "nothing can be built on $native"

LIBRARIES=$work/libraries release/image.sh "$out/sluice-image-$VERSION.tar" "$VERSION" "${images[@]}"
release/krew.sh "$VERSION" "${plugins[@]}" >"$out/krew-sluice.yaml"

# The manifests, with the image of this release.
tagged() { sed "s|\(image: ghcr.io/sluice-dev/sluice:\).*|\1$VERSION|"; }
"$kubectl" kustomize crds >"$out/crds.yaml"
for variant in default:install without-webhook:install-without-webhook; do
	{
		cat "$out/crds.yaml"
		echo ---
		"$kubectl" kustomize "config/${variant%%:*}" | tagged
	} >"$out/${variant#*:}.yaml"
done
release/charts.sh "$out" "$VERSION"

touch "$work/libraries"
release/sbom.sh sluice "$VERSION" "$native" "$work/libraries" >"$out/sluice-$VERSION.cdx.json"
release/sbom.sh kubectl-sluice "$VERSION" "$native" >"$out/kubectl-sluice-$VERSION.cdx.json"
release/changelog.sh "$VERSION" >"$out/CHANGELOG.md"
(cd "$out" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
mkdir -p "$to"
# It took minutes, in which something may have come.
refuse_foreign
find -H "$to" -mindepth 1 -delete
mv -- "$out"/* "$to/"
echo "release: $VERSION is in $to:" >&2
ls -l "$to/" >&2
