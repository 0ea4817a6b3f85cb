//go:build !faultpoints

package server

import "github.com/daybook-ct/daybook/cache"

// cacheFilesystem leaves it to the cache to ask the system.
func cacheFilesystem() func(dir string) (cache.FSType, error) { return nil }
