package testca

import "strconv"

var (
	topLevels = [...]string{".com", ".org", ".net", ".example", ".de", ".co.uk"}
	hosts     = [...]string{"www.", "mail.", "api.", "dev.", "blog.", "shop.", "static.", "cpanel.", "webmail.", "autodiscover."}
)

const letters = "abcdefghijklmnopqrstuvwxyz0123456789"

// names returns 1 to 30 host names on a few domains, as a shared hosting
// certificate has them. The first one is unique to the leaf's number.
func (s *source) names(n uint64) []string {
	names := make([]string, 0, 30)
	count := 1 + s.below(30)
	domain := s.domain("n" + strconv.FormatUint(n, 36) + "-")
	names = append(names, domain)
	for len(names) < count {
		if s.below(6) == 0 {
			domain = s.domain("")
			names = append(names, domain)
			continue
		}
		names = append(names, hosts[len(names)%len(hosts)]+domain)
	}
	return names
}

func (s *source) domain(prefix string) string {
	b := append(make([]byte, 0, 48), prefix...)
	for range 6 + s.below(9) {
		b = append(b, letters[s.below(len(letters))])
	}
	b[len(prefix)] = letters[s.below(26)]
	return string(append(b, topLevels[s.below(len(topLevels))]...))
}
