package cache

import "fmt"

// Values of FSType that stand for ZFS.
const (
	zfsMagic = 0x2fc12fc1 // f_type on Linux
	zfsName  = "zfs"      // f_fstypename on FreeBSD
)

// FSType is the type of a filesystem as statfs tells it: by a number (Linux)
// or by a name (FreeBSD, macOS). The other one is zero.
type FSType struct {
	Magic uint32
	Name  string
}

// ZFS reports whether it is ZFS, which keeps writes in order across a crash.
func (t FSType) ZFS() bool { return t.Magic == zfsMagic || t.Name == zfsName }

// magicNames are the names of common Linux filesystems, for log lines
// (linux/magic.h).
var magicNames = map[uint32]string{
	0x0000ef53: "ext4", // ext2 and ext3 have the same number
	0x58465342: "xfs",
	0x9123683e: "btrfs",
	0x01021994: "tmpfs",
	0x794c7630: "overlayfs",
	0x00006969: "nfs",
	0xf2f52010: "f2fs",
	zfsMagic:   zfsName,
}

// String returns the name, or the number if it is not a common one.
func (t FSType) String() string {
	if t.Name != "" {
		return t.Name
	}
	if name := magicNames[t.Magic]; name != "" {
		return name
	}
	if t.Magic == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%#x", t.Magic)
}

// Values of PRAGMA synchronous.
const (
	syncOff    = 0
	syncNormal = 1
)

// syncNames are the values as they are read back, in words.
var syncNames = map[string]string{"0": "off", "1": "normal", "2": "full", "3": "extra"}

// synchronous decides between OFF and NORMAL: without fsync a power cut can
// leave a corrupt database, unless the filesystem keeps writes in order. So OFF takes certainty
// that it is ZFS; a failed statfs is none.
func synchronous(t FSType, statfsErr error) int {
	if statfsErr == nil && t.ZFS() {
		return syncOff
	}
	return syncNormal
}
