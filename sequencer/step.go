package sequencer

// Step is a step of a round. The names are used in logs, metrics, fault plans
// and the crash matrix alike.
type Step int

// The steps of a round, in order.
const (
	StepClose    Step = iota // swap pools under the turnstile
	StepAssign               // timestamp and indexes
	StepGrow                 // compute the new tree and its objects
	StepStage                // one bundle with every object, durable
	StepSign                 // the new checkpoint
	StepCommit               // compare-and-swap in the lock
	StepApply                // objects to their places
	StepPublish              // the checkpoint
	StepResolve              // tickets
	StepRemember             // cache put, then the RESTART WAL checkpoint
	StepDiscard              // the bundle
	stepCount    = iota
)

var stepNames = [stepCount]string{"close", "assign", "grow", "stage", "sign", "commit", "apply",
	"publish", "resolve", "remember", "discard"}

func (s Step) String() string { return stepNames[s] }
