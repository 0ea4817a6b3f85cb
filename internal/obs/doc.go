// Package obs is what operators see of a process: log lines, metrics, health
// and profiles, and the HTTP servers that all of it, and the logs, are reached by.
package obs
