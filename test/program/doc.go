// Package program is what black-box suites need of a program that they run: it
// is built once, what it says is kept line by line and can be waited for, and its
// end is noticed. How it is started, on this machine or another, in what
// environment and under which wrapper, is the suite's; so is what it asserts.
package program
