# Sourced by the other scripts: archives whose bytes depend on nothing but what is in them and on
# SOURCE_DATE_EPOCH, and digests.

fail() {
	echo "release: $*" >&2
	exit 1
}

# A tar of a folder, on the standard output: no names, times or order of this machine.
archive() { # folder [name in it…]
	local folder=$1
	shift
	tar --create --directory "$folder" --format=ustar --sort=name --mtime="@$SOURCE_DATE_EPOCH" \
		--owner=0 --group=0 --numeric-owner --mode='u+w,a+rX,go-w' -- "${@:-.}"
}

# The digest of a file, in hexadecimal digits.
sha256() { # file
	sha256sum "$1" | cut -d' ' -f1
}

# A time as RFC 3339 writes it.
rfc3339() { # seconds since the epoch
	date -u -d "@$1" +%Y-%m-%dT%H:%M:%SZ
}
