package config

import (
	"bytes"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

func roots(block string) string {
	s := strings.Replace(minimal, "roots: {files: [roots.pem]}", "roots: "+block, 1)
	if s == minimal && block != "{files: [roots.pem]}" {
		panic("nothing to replace")
	}
	return s
}

// TestRoots: each way to name roots gives the sources that it means.
func TestRoots(t *testing.T) {
	for _, test := range []struct {
		block string
		want  Roots
	}{
		{"{files: [roots.pem]}", Roots{Files: []string{"/etc/daybook/roots.pem"}}},
		{"[roots.pem, /srv/roots.d/]", Roots{Files: []string{"/etc/daybook/roots.pem", "/srv/roots.d"}}},
		{"\n      - roots.pem\n      - extra.pem", Roots{Files: []string{"/etc/daybook/roots.pem", "/etc/daybook/extra.pem"}}},
		{"{ccadb: [included]}", Roots{CCADB: []Report{"https://ccadb.my.salesforce-sites.com/ccadb/RootCACertificatesIncludedByRSReportCSV"}}},
		{"{ccadb: [applicants, ./included, \"https://ct.example.org/a.csv?x=1\", \"http://localhost:8000/b.csv\"]}", Roots{CCADB: []Report{
			"https://ccadb.my.salesforce-sites.com/ccadb/RootCACertificatesInclusionReportCSV", "/etc/daybook/included",
			"https://ct.example.org/a.csv?x=1", "http://localhost:8000/b.csv"}}},
		{"{merge_delay_monitor: true, files: [roots.pem]}", Roots{Files: []string{"/etc/daybook/roots.pem"}, MergeDelayMonitor: true}},
		{"{merge_delay_monitor: true}", Roots{MergeDelayMonitor: true}},
	} {
		c := mustParse(t, roots(test.block))
		if got := c.Logs[0].Roots; !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", test.block, got, test.want)
		}
		again, err := Parse(c.YAML(), "/elsewhere/daybook.yaml")
		if err != nil || !reflect.DeepEqual(again.Logs[0].Roots, test.want) {
			t.Errorf("%s: what is in effect reads back as %+v, %v", test.block, again, err)
		}
	}
	if d := mustParse(t, minimal).RootsInterval; time.Duration(d) != 24*time.Hour {
		t.Errorf("roots_interval is %v by default", d)
	}
}

func TestRootsErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{roots("{}"), "8: logs[0].roots: names no roots"},
		{roots("{merge_delay_monitor: false}"), "8: logs[0].roots: names no roots"},
		{roots("[]"), "8: logs[0].roots.files: is an empty list"},
		{roots("[CHANGE_ME.pem]"), "8: logs[0].roots.files[0]: still has the placeholder"},
		{roots("roots.pem"), "8: logs[0].roots: must be a mapping"},
		{roots("{ccadb: []}"), "8: logs[0].roots.ccadb: is an empty list"},
		{roots("{ccadb: included}"), "8: logs[0].roots.ccadb: must be a list"},
		{roots("{ccadb: [\"\"]}"), "8: logs[0].roots.ccadb[0]: is empty"},
		{roots("{ccadb: [\"http://ccadb.example.org/x\"]}"), `8: logs[0].roots.ccadb[0]: the scheme "http" is not possible`},
		{roots("{ccadb: [\"file:///x.csv\"]}"), `8: logs[0].roots.ccadb[0]: "file:///x.csv" is no URL`},
		{roots("{ccadb: [\"ftp://x/x.csv\"]}"), `8: logs[0].roots.ccadb[0]: the scheme "ftp" is not possible`},
		{roots("{ccadb: [\"https://a:b@ct.example.org/\"]}"), "8: logs[0].roots.ccadb[0]: a user name"},
		{roots("{ccadb: [\"https://%zz/\"]}"), `8: logs[0].roots.ccadb[0]: "https://%zz/" is no URL`},
		{minimal + "    ccadbroots: trusted\n", "9: logs[0].ccadbroots: is not a key that Daybook knows: write roots: {ccadb: [included]}"},
		{minimal + "    extraroots: x.pem\n", "9: logs[0].extraroots: is not a key that Daybook knows: write roots: {files: [...]}"},
		{minimal + "roots_interval: 1s\n", "9: roots_interval: 1s is too short: write at least 1m"},
		{minimal + "roots_interval: 24\n", "9: roots_interval: 24 has no unit"},
	} {
		if got := problems(t, test.text); len(got) != 1 || !strings.HasPrefix(got[0], test.want) {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestRootsWarnings(t *testing.T) {
	c := mustParse(t, roots("{files: [none.pem], ccadb: [included, none.csv]}"))
	var got []string
	for _, p := range c.Warnings(Host{Stat: func(path string) (fs.FileInfo, error) {
		if strings.Contains(path, "none") {
			return nil, fs.ErrNotExist
		}
		return statPrivate(path)
	}}) {
		if strings.Contains(p.Key, "roots") {
			got = append(got, p.String())
		}
	}
	if len(got) != 2 || !strings.Contains(got[0], ":8: logs[0].roots.files[0]: /etc/daybook/none.pem does not exist") ||
		!strings.Contains(got[1], ":8: logs[0].roots.ccadb[1]: /etc/daybook/none.csv does not exist") {
		t.Errorf("warnings %q", got)
	}
}

// TestPublishedExamples: the configurations that are shown to new operators
// are right.
func TestPublishedExamples(t *testing.T) {
	example, err := os.ReadFile("../docs/examples/daybook.yaml")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := bytes.Cut(readme, []byte("```yaml\n"))
	block, _, ended := bytes.Cut(block, []byte("```"))
	if !ok || !ended {
		t.Fatal("README.md has no block of YAML")
	}
	for _, text := range [][]byte{example, block} {
		c, err := Parse(text, "/etc/daybook/daybook.yaml")
		if err != nil {
			t.Errorf("%v\n%s", err, text)
		} else if files := c.Logs[0].Roots.Files; len(files) != 1 || files[0] != "/etc/daybook/roots.pem" {
			t.Errorf("roots %q", files)
		}
	}
}
