package power

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/daybook-ct/daybook/test/power/disk"
)

// counts are those of a whole series.
type counts struct {
	logs, cuts, opening, copies int
	policies                    map[disk.Policy]int
	pending, sectors, lost      int64 // of the disk's volatile cache, at all cuts

	// What the users of the machines saw.
	promised, repeated, moved, checkpoints, finished int
	entries, twice                                   int64 // at the end, of logs that came to one

	// What each cut had left, recovered on this machine.
	checked, recovered, hostFinished, hostMoved int
	temps, bundles                              int
	refused                                     map[string]int
	unusable                                    map[string]int // after a start, by how submissions failed
	lostPromises, lostIn, faulty                int
	fsck, fsckForgotten                         int
	cacheDamaged, cacheWrong                    int
}

// table returns the counts in Markdown.
func (n *counts) table() string {
	var b strings.Builder
	row := func(what string, format string, args ...any) {
		fmt.Fprintf(&b, "| %s | %s |\n", what, fmt.Sprintf(format, args...))
	}
	b.WriteString("| what | count |\n|---|---|\n")
	row("power cuts of a machine; while the log was starting", "%d; %d", n.cuts, n.opening)
	row("further cuts, on copies of the disk of a machine that went on", "%d", n.copies)
	row("what the disk kept of unflushed writes", "%s", policies(n.policies))
	row("unflushed writes at the cuts; sectors of them; sectors lost", "%d; %d; %d", n.pending, n.sectors, n.lost)
	row("logs", "%d", n.logs)
	row("entries promised", "%d", n.promised)
	row("checkpoints seen", "%d", n.checkpoints)
	row("promises checked, over all cuts", "%d", n.checked)
	row("**promises lost**; cuts with a loss", "**%d**; %d", n.lostPromises, n.lostIn)
	row("cuts after which the log started; did not", "%d; %s", n.recovered, tally(n.refused))
	row("cuts after which a monitor found a fault", "%d", n.faulty)
	row("cuts after which submissions failed", "%s", tally(n.unusable))
	row("cuts after which `daybook fsck` found damage; only that the cache has forgotten rows", "%d; %d", n.fsck, n.fsckForgotten)
	row("rounds finished by recovery, on the machine; from its image", "%d; %d", n.finished, n.hostFinished)
	row("temporary files and bundles left by cuts; served", "%d and %d; 0", n.temps, n.bundles)
	row("dedup caches damaged; rows of them wrong", "%d; %d", n.cacheDamaged, n.cacheWrong)
	row("entries asked for again and answered with the same SCT", "%d", n.repeated)
	row("entries logged twice as the cache had lost them, on the machine; from its image", "%d; %d", n.moved, n.hostMoved)
	row("entries of the logs that came to an orderly end; twice in them", "%d; %d", n.entries, n.twice)
	return b.String()
}

func policies(m map[disk.Policy]int) string {
	var list []string
	for _, p := range disk.Policies() {
		list = append(list, fmt.Sprintf("%v %d", p, m[p]))
	}
	return strings.Join(list, ", ")
}

// tally returns a sum and its parts.
func tally(m map[string]int) string {
	sum := 0
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(m)) {
		sum += m[what]
		parts = append(parts, fmt.Sprintf("%d: %s", m[what], what))
	}
	if sum == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", sum, strings.Join(parts, "; "))
}
