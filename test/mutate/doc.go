// Command mutate breaks the code on purpose, one small change at a time, and
// checks that the tests named for each change fail. A change that no test
// notices is a promise that no test holds.
//
//	go run ./test/mutate [-run regexp] [-j n]
//
// The source is left as it is: the changed file is given to the go tool by an
// overlay. A mutation counts as caught only if its package compiles and its
// tests, which pass without it, fail.
package main
