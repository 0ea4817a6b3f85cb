#!/bin/sh
# Gets what the power tests need beside Go, on Debian, as root: QEMU, the tools
# of ext4, and a kernel, which is unpacked into the directory given and not
# installed.
set -eu
dir=${1:?usage: setup.sh DIRECTORY}
modules="virtio virtio_ring virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk failover net_failover virtio_net"

if ! command -v qemu-system-x86_64 >/dev/null || ! command -v mkfs.ext4 >/dev/null || ! command -v debugfs >/dev/null; then
	apt-get update
	DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends qemu-system-x86 e2fsprogs
fi
[ ! -e "$dir/vmlinuz" ] || exit 0

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: *\(linux-image-.*\)/\1/p' | head -n 1)
[ -n "$package" ] || { echo "no kernel is known: run apt-get update" >&2; exit 1; }
chmod 755 "$temp"
(cd "$temp" && apt-get -o APT::Sandbox::User=root download "$package")
dpkg-deb -x "$temp"/*.deb "$temp/unpacked"
mkdir -p "$dir/modules"
for module in $modules; do
	found=$(find "$temp/unpacked" -name "$module.ko")
	[ -z "$found" ] || cp "$found" "$dir/modules/" # or it is built in
done
cp "$temp"/unpacked/boot/vmlinuz-* "$dir/vmlinuz"
echo "$package is in $dir"
