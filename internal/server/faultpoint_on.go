//go:build faultpoints

package server

import (
	"github.com/daybook-ct/daybook/cache"
	"github.com/daybook-ct/daybook/internal/faultpoint"
)

// cacheFilesystem takes any file system for ZFS if the cache is to go without
// fsync, which it never does on another one.
func cacheFilesystem() func(dir string) (cache.FSType, error) {
	if !faultpoint.Unsynced(faultpoint.Cache) {
		return nil
	}
	return func(string) (cache.FSType, error) { return cache.FSType{Magic: 0x2fc12fc1, Name: "zfs"}, nil }
}
