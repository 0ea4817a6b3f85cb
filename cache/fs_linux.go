package cache

import "golang.org/x/sys/unix"

// statfs returns the type of the filesystem that dir is on.
func statfs(dir string) (FSType, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return FSType{}, err
	}
	// The field's width and sign differ between architectures.
	return FSType{Magic: uint32(st.Type)}, nil
}
