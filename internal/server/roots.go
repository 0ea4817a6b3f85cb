package server

import (
	"context"

	"github.com/daybook-ct/daybook/internal/obs"
	"github.com/daybook-ct/daybook/submission/rootsource"
)

// rootSources returns where the log's accepted roots come from.
func (o *LogOptions) rootSources() (sources []rootsource.Source, err error) {
	for _, path := range o.RootFiles {
		sources = append(sources, rootsource.PEM(path))
	}
	for _, location := range o.CCADB {
		s, err := rootsource.CCADB(location)
		if err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	if o.MergeDelayMonitor {
		sources = append(sources, rootsource.MergeDelayMonitor())
	}
	return sources, nil
}

// newRootLoader returns what loads the accepted roots of all logs.
func newRootLoader(o *Options) (*rootsource.Loader, error) {
	return rootsource.New(rootsource.Options{
		Interval:  o.RootsInterval,
		UserAgent: "daybook/" + obs.ReadBuild().Version,
		Logger:    o.Logger,
		Metrics:   o.Registry,
	})
}

// reloadRoots reads the sources of accepted roots again, until ctx is done.
func (s *Server) reloadRoots(ctx context.Context) {
	accepted := make([]*rootsource.Accepted, len(s.logs))
	for i, l := range s.logs {
		accepted[i] = l.roots
	}
	s.roots.Run(ctx, accepted, s.o.ReloadRoots)
}
