package main

import (
	"os"
	"strconv"
	"strings"
)

// procField returns a number from a file of "name: number" lines (proc(5)), 0 if
// it cannot be had.
func procField(path, name string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		rest, ok := strings.CutPrefix(line, name)
		if f := strings.Fields(rest); ok && len(f) > 0 {
			n, err := strconv.ParseInt(f[0], 10, 64)
			if err == nil {
				return n
			}
		}
	}
	return 0
}
