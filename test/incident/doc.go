// Package incident replays the production story that the design answers
// (docs/incident.md): it runs the real program on a cold dedup cache of ten
// million rows, floods it, and measures what remains of the log's calm when each
// of its remedies is switched off.
//
//	make incident        the whole story, as a table in Markdown
//
// The program has to be built with the tag incident (package internal/incident)
// for that. The tests of this package hold the ordinary program to the smaller
// stories: a check that sees no movement fails, a placeholder in the configuration
// is refused, and a freeze after a quiet spell is told apart.
package incident
