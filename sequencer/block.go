package sequencer

// Block makes the log refuse every entry with this reason, which should wrap
// ErrStorage, until Unblock is called. Entries that were admitted before are
// sequenced, and rounds go on: the log publishes fresh checkpoints as long as
// it can. A log that has halted, or is read-only, says that instead.
//
// Block and Unblock may be called at any time, by any number of goroutines; the
// last call counts.
func (l *Log) Block(reason error) { l.block.Store(&reason) }

// Unblock undoes Block.
func (l *Log) Unblock() { l.block.Store(nil) }

// blocked returns why the log refuses entries for now, or nil.
func (l *Log) blocked() error {
	reason := l.block.Load()
	if reason == nil {
		reason = l.stepped.Load()
	}
	if reason == nil || l.halted.Load() != nil || l.sunset() {
		return nil
	}
	return *reason
}
