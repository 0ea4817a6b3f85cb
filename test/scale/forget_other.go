//go:build !linux

package main

import "os"

// canForget says whether forget works.
const canForget = false

func forget(*os.File) error { return nil }

func noReadAhead(*os.File) error { return nil }
