//go:build freebsd || darwin

package cache

import "golang.org/x/sys/unix"

// statfs returns the type of the filesystem that dir is on.
func statfs(dir string) (FSType, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return FSType{}, err
	}
	return FSType{Name: unix.ByteSliceToString(st.Fstypename[:])}, nil
}
