package config

import (
	"os"
	"strings"
	"testing"
)

// TestReadmeExample: the configuration in the README is one that Daybook takes.
func TestReadmeExample(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "```yaml\n")
	example, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatal("the README has no YAML example")
	}
	c, err := Parse([]byte(example), "README.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Logs) != 1 || c.Logs[0].Capacity() != 750 {
		t.Errorf("the example has %d logs; the text says a capacity of 750/s", len(c.Logs))
	}
}
